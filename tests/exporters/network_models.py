"""Networks of timm, torchvision, diffusers and Ultralytics without trained weights."""

import functools

import torch

from exportable import ANY, BATCH, Exportable, drawn, images

# Networks of timm, and the sizes of the images that they are compiled for.
TIMM = {
    "timm_resnet18": ("resnet18", 64, 96), "timm_resnest14d": ("resnest14d", 64), "timm_repvgg_a0": ("repvgg_a0", 64, 96),
    "timm_mobilenetv3_small": ("mobilenetv3_small_050", 64, 96), "timm_mobilenetv4": ("mobilenetv4_conv_small_050", 64, 96),
    "timm_ghostnet": ("ghostnet_050", 64, 96), "timm_lcnet": ("lcnet_050", 64, 96), "timm_hgnetv2": ("hgnetv2_b0", 64, 96),
    "timm_efficientformerv2": ("efficientformerv2_s0", 224), "timm_edgenext": ("edgenext_xx_small", 64),
    "timm_convnext_atto": ("convnext_atto", 64, 96), "timm_inception_next": ("inception_next_atto", 64, 96),
    "timm_starnet": ("starnet_s1", 64, 96), "timm_mambaout": ("mambaout_femto", 64, 96), "timm_fastvit": ("fastvit_t8", 64),
    "timm_nfnet": ("dm_nfnet_f0", 64), "timm_xcit": ("xcit_nano_12_p16_224", 64), "timm_regnetz": ("regnetz_005", 64, 96),
    "timm_caformer": ("caformer_s18", 64), "timm_vit_tiny": ("vit_tiny_patch16_224", 224), "timm_tinyvit": ("tiny_vit_5m_224", 224),
    "timm_maxvit": ("maxvit_rmlp_pico_rw_256", 256), "timm_coatnet": ("coatnet_nano_rw_224", 224),
    "timm_mixer": ("mixer_s32_224", 224), "timm_darknet": ("cspdarknet53", 64), "timm_repvit": ("repvit_m0_9", 64),
}
TORCHVISION = {
    "tv_squeezenet": ("squeezenet1_1", 64, 96), "tv_shufflenet": ("shufflenet_v2_x0_5", 64, 96), "tv_mnasnet": ("mnasnet0_5", 64, 96),
    "tv_deeplabv3": ("deeplabv3_mobilenet_v3_large", 64, 96), "tv_lraspp": ("lraspp_mobilenet_v3_large", 64, 96),
    "tv_googlenet": ("googlenet", 64), "tv_densenet": ("densenet121", 64),
}
# Descriptions of Ultralytics: a class of its tasks and the file.
ULTRALYTICS = {
    "yolov8": ("DetectionModel", "yolov8n.yaml"), "yolov9": ("DetectionModel", "yolov9t.yaml"),
    "yolov10": ("DetectionModel", "yolov10n.yaml"), "yolo11": ("DetectionModel", "yolo11n.yaml"),
    "yolo12": ("DetectionModel", "yolo12n.yaml"), "yolo11_segment": ("SegmentationModel", "yolo11n-seg.yaml"),
    "yolo11_pose": ("PoseModel", "yolo11n-pose.yaml"), "yolo11_oriented": ("OBBModel", "yolo11n-obb.yaml"),
    "yolo11_classify": ("ClassificationModel", "yolo11n-cls.yaml"),
}


def from_timm(name, size, second=None, **more):
    import timm
    return images(timm.create_model(name, pretrained=False), size, second=second, **more)


class FirstOf(torch.nn.Module):
    """Segmentation networks of torchvision return a dictionary."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        result = self.model(image)
        return result["out"] if isinstance(result, dict) else result


def from_torchvision(name, size, second=None, **more):
    import torchvision
    model = torchvision.models.get_model(name, weights=None, **({"weights_backbone": None} if "v3_large" in name else {}))
    return images(FirstOf(model), size, second=second, **more)


def from_ultralytics(task, file, script=True):
    import ultralytics.nn.tasks
    model = getattr(ultralytics.nn.tasks, task)(file, verbose=False).eval()
    model = model.fuse(verbose=False)
    head = model.model[-1]
    head.export, head.format, head.dynamic = True, "onnx", True
    return images(model, 64, second=96, script=script)


def from_diffusers(name, inputs, varying, **values):
    import diffusers
    model = getattr(diffusers, name)(**values).eval()
    model.config.return_dict = False
    return Exportable(Unnamed(model), inputs, varying)


class Unnamed(torch.nn.Module):
    """Models of diffusers return a tuple if they are asked to."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs, return_dict=False)[0]


def stable_diffusion_unet():
    steps = torch.tensor([5], dtype=torch.int64)
    inputs = [(drawn(batch, 4, size, size), steps, drawn(batch, length, 16)) for batch, size, length in ((2, 16, 7), (3, 24, 11))]
    return from_diffusers("UNet2DConditionModel", inputs, [{0: ANY, 2: ANY, 3: ANY}, {}, {0: ANY, 1: ANY}],
                          block_out_channels=(16, 32), layers_per_block=1, cross_attention_dim=16, attention_head_dim=4,
                          norm_num_groups=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                          up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))


def unconditional_unet():
    steps = torch.tensor([5], dtype=torch.int64)
    return from_diffusers("UNet2DModel", [(drawn(2, 3, 16, 16), steps), (drawn(3, 3, 24, 24), steps)],
                          [{0: ANY, 2: ANY, 3: ANY}, {}], block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
                          attention_head_dim=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                          up_block_types=("AttnUpBlock2D", "UpBlock2D"))


def autoencoder():
    return from_diffusers("AutoencoderKL", [(drawn(2, 3, 32, 32),), (drawn(3, 3, 48, 48),)], [{0: ANY, 2: ANY, 3: ANY}],
                          block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, latent_channels=4,
                          down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)


def tiny_autoencoder():
    return from_diffusers("AutoencoderTiny", [(drawn(2, 3, 32, 32),), (drawn(3, 3, 48, 48),)], [{0: ANY, 2: ANY, 3: ANY}],
                          encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
                          num_decoder_blocks=(1, 1))


def diffusion_transformer():
    import diffusers
    model = diffusers.SD3Transformer2DModel(sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8,
                                            num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
                                            pooled_projection_dim=8, out_channels=4, pos_embed_max_size=16).eval()

    class Positional(Unnamed):
        def forward(self, latents, text, pooled, steps):
            return self.model(latents, text, pooled, steps, return_dict=False)[0]
    inputs = [(drawn(batch, 4, 16, 16), drawn(batch, length, 16), drawn(batch, 8), torch.full((batch,), 5.0))
              for batch, length in ((2, 7), (3, 11))]
    return Exportable(Positional(model), inputs, [{0: BATCH}, {0: BATCH, 1: ANY}, {0: BATCH}, {0: BATCH}])


MODELS = {
    **{name: functools.partial(from_timm, *row) for name, row in TIMM.items()},
    **{name: functools.partial(from_torchvision, *row) for name, row in TORCHVISION.items()},
    **{name: functools.partial(from_ultralytics, *row) for name, row in ULTRALYTICS.items()},
    "timm_resnet18_script": functools.partial(from_timm, *TIMM["timm_resnet18"], script=True),
    **{each.__name__: each for each in (stable_diffusion_unet, unconditional_unet, autoencoder, tiny_autoencoder,
                                        diffusion_transformer)},
}
