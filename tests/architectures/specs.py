"""Networks people have, small and untrained: torchvision, timm and transformers with tiny configurations. No weights are fetched.

torchvision and its models are under BSD-3-Clause, timm and transformers under Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Architecture:
    """A network and what it takes.

    Attributes:
        name: for reports, ``library/model``.
        make: makes the network, in eval mode.
        shapes: of its inputs, with a batch of 2; names of integer inputs give their largest value.
        integers: by position: how many different values an integer input has.
    """

    name: str
    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    integers: dict[int, int] = field(default_factory=dict)

    def inputs(self, seed: int) -> tuple[torch.Tensor, ...]:
        """Examples, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(
            torch.randint(0, self.integers[i], shape, generator=generator)
            if i in self.integers
            else torch.rand(shape, generator=generator)
            for i, shape in enumerate(self.shapes)
        )


class Picked(nn.Module):
    """A network of which some outputs are taken.

    Args:
        inner: the network.
        pick: what to take of its result.
        names: of keyword arguments, where the inputs are not given by position.
    """

    def __init__(self, inner: nn.Module, pick: Callable[[Any], Any], names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.inner, self.pick, self.names = inner, pick, names

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What was picked of the network's result."""
        given = dict(zip(self.names, inputs, strict=False))
        return self.pick(self.inner(**given) if given else self.inner(*inputs))


def seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The same with the same initial weights each time, none of them zeros, in eval mode."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        module = make().eval()
        with torch.no_grad():
            for parameter in module.parameters():
                if not parameter.any():  # behind a head of zeros everything is right
                    parameter.normal_(0, 0.1)
        return module

    return made


# -- torchvision -------------------------------------------------------------------------------------------------------

_CLASSIFIERS = {
    "alexnet": 96,
    "vgg11": 64,
    "vgg11_bn": 64,
    "resnet18": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "wide_resnet50_2": 64,
    "densenet121": 64,
    "squeezenet1_0": 64,
    "squeezenet1_1": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64,
    "shufflenet_v2_x0_5": 64,
    "shufflenet_v2_x1_0": 64,
    "mnasnet0_5": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "regnet_y_400mf": 64,
    "regnet_x_400mf": 64,
    "convnext_tiny": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "swin_t": 64,
    "swin_v2_t": 64,
    "maxvit_t": 224,
}
_SEGMENTERS = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
_DETECTORS = (
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
)
_VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v2_s", "swin3d_t")


def _torchvision() -> list[Architecture]:
    from torchvision import models

    def classifier(name: str) -> Callable[[], nn.Module]:
        more = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        return lambda: getattr(models, name)(weights=None, num_classes=10, **more)

    found = [Architecture(f"torchvision/{n}", seeded(classifier(n)), ((2, 3, s, s),)) for n, s in _CLASSIFIERS.items()]
    found.append(
        Architecture(
            "torchvision/vit_tiny",
            seeded(lambda: models.VisionTransformer(32, 8, 3, 4, 48, 96, num_classes=10)),
            ((2, 3, 32, 32),),
        )
    )
    for name in _SEGMENTERS:
        make = getattr(models.segmentation, name)

        def segmenter(make: Callable[..., nn.Module] = make) -> nn.Module:
            return Picked(make(weights=None, weights_backbone=None, num_classes=5), lambda result: result["out"])

        found.append(Architecture(f"torchvision/{name}", seeded(segmenter), ((2, 3, 64, 64),)))
    for name in _VIDEO:
        frames, size = (16, 224) if name == "s3d" else (16, 224) if name == "mvit_v2_s" else (8, 64)
        make = getattr(models.video, name)
        found.append(
            Architecture(
                f"torchvision/{name}",
                seeded(lambda make=make: make(weights=None, num_classes=5)),
                ((1 if size == 224 else 2, 3, frames, size, size),),
            )
        )
    found.append(
        Architecture(
            "torchvision/raft_small",
            seeded(lambda: Picked(models.optical_flow.raft_small(weights=None), lambda flows: flows[-1])),
            ((1, 3, 128, 128), (1, 3, 128, 128)),
        )
    )
    return found


# -- timm --------------------------------------------------------------------------------------------------------------

_TIMM = {
    "resnet10t": 64,
    "resnetv2_50": 64,
    "seresnet50": 64,
    "ecaresnet26t": 64,
    "skresnet18": 64,
    "res2net50_26w_4s": 64,
    "resnest14d": 64,
    "cspresnet50": 64,
    "cspdarknet53": 64,
    "darknet53": 64,
    "dla34": 64,
    "dpn48b": 64,
    "vovnet39a": 64,
    "hardcorenas_a": 64,
    "hrnet_w18_small": 64,
    "ghostnet_050": 64,
    "ghostnetv2_100": 64,
    "mobilenetv3_small_050": 64,
    "mobilenetv4_conv_small": 64,
    "mobileone_s0": 64,
    "efficientnet_lite0": 64,
    "tf_efficientnetv2_b0": 64,
    "mixnet_s": 64,
    "fbnetc_100": 64,
    "spnasnet_100": 64,
    "lcnet_050": 64,
    "tinynet_e": 64,
    "rexnet_100": 64,
    "regnetz_b16": 64,
    "repvgg_a0": 64,
    "repghostnet_050": 64,
    "nf_resnet26": 64,
    "eca_nfnet_l0": 64,
    "inception_next_tiny": 64,
    "inception_resnet_v2": 96,
    "xception41": 64,
    "selecsls42": 64,
    "gernet_s": 64,
    "edgenext_xx_small": 64,
    "efficientformerv2_s0": 224,
    "fastvit_t8": 64,
    "mobilevit_xxs": 64,
    "mobilevitv2_050": 64,
    "repvit_m0_9": 64,
    "starnet_s1": 64,
    "convnext_atto": 64,
    "convnextv2_atto": 64,
    "convmixer_768_32": 32,
    "poolformer_s12": 64,
    "caformer_s18": 64,
    "focalnet_tiny_srf": 64,
    "coatnet_nano_rw_224": 224,
    "davit_tiny": 64,
    "gcvit_xxtiny": 224,
    "levit_128s": 224,
    "pvt_v2_b0": 64,
    "pit_ti_224": 224,
    "vit_tiny_patch16_224": 224,
    "deit_tiny_patch16_224": 224,
    "beit_base_patch16_224": 224,
    "eva02_tiny_patch14_224": 224,
    "cait_xxs24_224": 224,
    "xcit_nano_12_p16_224": 224,
    "twins_svt_small": 224,
    "visformer_tiny": 224,
    "mixer_s32_224": 224,
    "resmlp_12_224": 224,
    "gmlp_s16_224": 224,
    "tiny_vit_5m_224": 224,
    "hiera_tiny_224": 224,
    "nextvit_small": 64,
    "sequencer2d_s": 224,
    "swin_tiny_patch4_window7_224": 224,
    "volo_d1_224": 224,
    "maxxvit_rmlp_nano_rw_256": 256,
}


def _timm() -> list[Architecture]:
    import timm

    def make(name: str) -> Callable[[], nn.Module]:
        return lambda: timm.create_model(name, pretrained=False, num_classes=10)

    return [Architecture(f"timm/{n}", seeded(make(n)), ((1 if s > 200 else 2, 3, s, s),)) for n, s in _TIMM.items()]


# -- transformers ------------------------------------------------------------------------------------------------------

_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_SPREAD = {"initializer_range": 0.2}
"""Of weights, for networks that do nothing with the spread that is meant for layers of 768."""
_WORDS = 99


def _transformers() -> list[Architecture]:
    import transformers as tf

    tokens = ((2, 12),)

    def text(model: str, config: str, pick: str = "last_hidden_state", **settings: Any) -> Architecture:
        def make() -> nn.Module:
            made = getattr(tf, config)(**{"vocab_size": _WORDS, **settings})
            return Picked(getattr(tf, model)(made), lambda result: result[pick], ("input_ids", "attention_mask"))

        return Architecture(f"transformers/{model}", seeded(make), tokens, {0: _WORDS})

    def picture(model: str, config: str, pick: str, size: int = 32, **settings: Any) -> Architecture:
        def make() -> nn.Module:
            return Picked(getattr(tf, model)(getattr(tf, config)(**settings)), lambda result: result[pick], ("pixel_values",))

        return Architecture(f"transformers/{model}", seeded(make), ((2, 3, size, size),))

    distil = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    gpt = {"n_embd": 32, "n_layer": 2, "n_head": 4, "use_cache": False}
    cached = {"use_cache": False}
    return [
        text("BertModel", "BertConfig", **_SMALL),
        text("BertForSequenceClassification", "BertConfig", "logits", **_SMALL),
        text("RobertaModel", "RobertaConfig", **_SMALL),
        text("DistilBertModel", "DistilBertConfig", **distil),
        text("AlbertModel", "AlbertConfig", embedding_size=16, **_SMALL),
        text("ElectraModel", "ElectraConfig", embedding_size=16, **_SMALL),
        text("MobileBertModel", "MobileBertConfig", **_SMALL),
        text("DebertaV2Model", "DebertaV2Config", **_SMALL),
        text("ConvBertModel", "ConvBertConfig", embedding_size=32, **_SMALL),
        text("MPNetModel", "MPNetConfig", **_SMALL),
        text("RoFormerModel", "RoFormerConfig", embedding_size=32, **_SMALL),
        text("GPT2LMHeadModel", "GPT2Config", "logits", **gpt),
        text("GPTNeoXForCausalLM", "GPTNeoXConfig", "logits", **cached, **_SMALL),
        text("OPTForCausalLM", "OPTConfig", "logits", ffn_dim=64, word_embed_proj_dim=32, **cached, **_SMALL),
        text("LlamaForCausalLM", "LlamaConfig", "logits", num_key_value_heads=2, **cached, **_SMALL),
        text("Qwen2ForCausalLM", "Qwen2Config", "logits", num_key_value_heads=2, **cached, **_SMALL),
        text("MistralForCausalLM", "MistralConfig", "logits", num_key_value_heads=2, **cached, **_SMALL),
        text("GemmaForCausalLM", "GemmaConfig", "logits", num_key_value_heads=1, head_dim=8, **cached, **_SMALL),
        text("T5EncoderModel", "T5Config", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
        picture("ViTModel", "ViTConfig", "last_hidden_state", image_size=32, patch_size=8, **_SMALL),
        picture("DeiTModel", "DeiTConfig", "last_hidden_state", image_size=32, patch_size=8, **_SPREAD, **_SMALL),
        picture("BeitModel", "BeitConfig", "last_hidden_state", image_size=32, patch_size=8, **_SMALL),
        picture("Dinov2Model", "Dinov2Config", "last_hidden_state", image_size=32, patch_size=8, **_SMALL),
        picture("CLIPVisionModel", "CLIPVisionConfig", "last_hidden_state", image_size=32, patch_size=8, **_SMALL),
        picture("ConvNextModel", "ConvNextConfig", "last_hidden_state", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
        picture(
            "ResNetModel", "ResNetConfig", "last_hidden_state", hidden_sizes=[8, 16, 24, 32], embedding_size=8, depths=[1] * 4
        ),
        picture("MobileViTModel", "MobileViTConfig", "last_hidden_state", 64, image_size=64, **_SPREAD),
        picture(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            "logits",
            64,
            hidden_sizes=[8, 16, 24, 32],
            depths=[1] * 4,
            decoder_hidden_size=16,
        ),
        Architecture(
            "transformers/Wav2Vec2Model",
            seeded(
                lambda: Picked(
                    tf.Wav2Vec2Model(
                        tf.Wav2Vec2Config(
                            conv_dim=[16] * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **_SMALL
                        )
                    ),
                    lambda result: result["last_hidden_state"],
                )
            ),
            ((2, 4000),),
        ),
        Architecture(
            "transformers/WhisperEncoder",
            seeded(
                lambda: Picked(
                    tf.WhisperModel(
                        tf.WhisperConfig(
                            d_model=32,
                            encoder_layers=2,
                            decoder_layers=1,
                            encoder_attention_heads=4,
                            decoder_attention_heads=4,
                            encoder_ffn_dim=64,
                            decoder_ffn_dim=64,
                            max_source_positions=50,
                            num_mel_bins=20,
                        )
                    ).encoder,
                    lambda result: result["last_hidden_state"],
                )
            ),
            ((2, 20, 100),),
        ),
        Architecture(
            "transformers/ASTModel",
            seeded(
                lambda: Picked(
                    tf.ASTModel(
                        tf.ASTConfig(
                            patch_size=8,
                            max_length=64,
                            num_mel_bins=32,
                            frequency_stride=8,
                            time_stride=8,
                            **_SPREAD,
                            **_SMALL,
                        )
                    ),
                    lambda result: result["last_hidden_state"],
                )
            ),
            ((2, 64, 32),),
        ),
    ]


# -- plain torch -------------------------------------------------------------------------------------------------------


class _Tagger(nn.Module):
    """Words through a recurrent layer to tags."""

    def __init__(self, kind: type[nn.Module], **settings: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, 16)
        self.recurrent = kind(16, 12, batch_first=True, **settings)
        self.tags = nn.Linear(12 * (2 if settings.get("bidirectional") else 1), 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.tags(self.recurrent(self.words(words))[0])


def _plain() -> list[Architecture]:
    tokens = ((2, 12),)
    return [
        Architecture(
            "torch/lstm_tagger", seeded(lambda: _Tagger(nn.LSTM, num_layers=2, bidirectional=True)), tokens, {0: _WORDS}
        ),
        Architecture("torch/gru_tagger", seeded(lambda: _Tagger(nn.GRU)), tokens, {0: _WORDS}),
        Architecture("torch/rnn_tagger", seeded(lambda: _Tagger(nn.RNN, bidirectional=True)), tokens, {0: _WORDS}),
        Architecture(
            "torch/transformer_encoder",
            seeded(
                lambda: nn.TransformerEncoder(
                    nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False
                )
            ),
            ((2, 10, 32),),
        ),
        Architecture(
            "torch/transformer", seeded(lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True)), ((2, 10, 32), (2, 7, 32))
        ),
    ]


def architectures() -> dict[str, Architecture]:
    """All of them by name."""
    return {a.name: a for a in (*_torchvision(), *_timm(), *_transformers(), *_plain())}
