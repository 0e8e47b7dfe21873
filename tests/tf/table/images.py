"""Functions for images and signals."""

from tests.tf.entry import REAL, floats, function, tf

IMAGE, SMALL = floats(1, 8, 10, 3, low=0, high=1), floats(None, 5, 6, 4)
SOUND = floats(1, 512)


def _resize1(method, size, **how):
    """The function of TensorFlow 1, whose files are still around."""
    return lambda x: getattr(tf.compat.v1.image, f"resize_{method}")(x, size, **how)


def _resizes():
    found = []
    for method in ("bilinear", "nearest_neighbor"):
        for size in ((10, 12), (13, 9), (3, 4)):
            for mode, how in (("plain", {}), ("corners", {"align_corners": True}), ("centres", {"half_pixel_centers": True})):
                name = f"resize1-{method.split('_')[0]}-{mode}-{size[0]}x{size[1]}"
                found.append(function(name, SMALL, _resize1(method, size, **how)))
    return found


ENTRIES = [
    *_resizes(),
    function("resize-bilinear", SMALL, lambda x: tf.image.resize(x, (11, 7))),
    function("resize-nearest", SMALL, lambda x: tf.image.resize(x, (11, 7), "nearest")),
    function("resize-computed", [SMALL, floats(1, 4, 3, 4)], lambda x, y: tf.image.resize(x, tf.shape(y)[1:3]), REAL),
    function("resize-with-pad", IMAGE, lambda x: tf.image.resize_with_pad(x, 12, 12), REAL),
    function("central-crop", IMAGE, lambda x: tf.image.central_crop(x, 0.5)),
    function("crop-box", IMAGE, lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 4, 5)),
    function("pad-box", IMAGE, lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 12, 14)),
    function("crop-or-pad", IMAGE, lambda x: tf.image.resize_with_crop_or_pad(x, 6, 12)),
    function("flip-left-right", IMAGE, lambda x: tf.image.flip_left_right(x)),
    function("flip-up-down", IMAGE, lambda x: tf.image.flip_up_down(x)),
    function("rot90", IMAGE, lambda x: tf.image.rot90(x)),
    function("transpose-image", IMAGE, lambda x: tf.image.transpose(x)),
    function("rgb-to-grayscale", IMAGE, lambda x: tf.image.rgb_to_grayscale(x)),
    function("grayscale-to-rgb", floats(1, 4, 5, 1), lambda x: tf.image.grayscale_to_rgb(x)),
    function("rgb-to-yuv", IMAGE, lambda x: tf.image.rgb_to_yuv(x)),
    function("yuv-to-rgb", IMAGE, lambda x: tf.image.yuv_to_rgb(x)),
    function("adjust-brightness", IMAGE, lambda x: tf.image.adjust_brightness(x, 0.2)),
    function("adjust-gamma", IMAGE, lambda x: tf.image.adjust_gamma(x, 1.3), REAL),
    function("per-image-standardization", IMAGE, lambda x: tf.image.per_image_standardization(x), REAL),
    function("sobel-edges", IMAGE, lambda x: tf.image.sobel_edges(x), REAL),
    function("image-gradients", IMAGE, lambda x: tuple(tf.image.image_gradients(x)), REAL),
    function("total-variation", IMAGE, lambda x: tf.image.total_variation(x), REAL),
    function("psnr", [IMAGE, IMAGE], lambda x, y: tf.image.psnr(x, y, 1.0), REAL),
    function("rfft-magnitude", SOUND, lambda x: tf.abs(tf.signal.rfft(x)), REAL),
    function("rfft-parts", SOUND, lambda x: (tf.math.real(tf.signal.rfft(x)), tf.math.imag(tf.signal.rfft(x))), REAL),
    function("rfft2d-magnitude", floats(1, 16, 16), lambda x: tf.abs(tf.signal.rfft2d(x)), REAL),
    function("stft-magnitude", SOUND, lambda x: tf.abs(tf.signal.stft(x, 128, 64, 128)), REAL),
    function("stft-log-mel", SOUND, lambda x: _log_mel(x), REAL),
    function("frames", SOUND, lambda x: tf.signal.frame(x, 128, 64), REAL),
    function("overlap-add", floats(1, 7, 8), lambda x: tf.signal.overlap_and_add(x, 4), REAL),
    function("hann-window", floats(1, 64), lambda x: x * tf.signal.hann_window(64)),
]


def _log_mel(sound):
    spectrum = tf.abs(tf.signal.stft(sound, 128, 64, 128))
    return tf.math.log(tf.matmul(spectrum, tf.signal.linear_to_mel_weight_matrix(20, 65, 8000, 80.0, 3800.0)) + 1e-3)
