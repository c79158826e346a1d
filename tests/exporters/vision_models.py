"""Models of images from transformers: encoders, segmentation, depth, detection, and images with text."""

import functools

import torch
import transformers

from exportable import BATCH, LENGTH, VOCABULARY, Call, Exportable, configured, drawn, images, masked_tokens, tokens

HIDDEN = ["last_hidden_state"]
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
PATCHES = {**VIT, "image_size": 32, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}
RESIDUAL = {"embedding_size": 8, "hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1]}
WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
PYRAMID = {"neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}

# name: family, head, size of the images, results, values of the configuration
IMAGES = {
    "vit": ("ViT", "Model", 32, HIDDEN, PATCHES),
    "deit": ("DeiT", "Model", 32, HIDDEN, PATCHES),
    "beit": ("Beit", "Model", 32, HIDDEN, {**PATCHES, "use_relative_position_bias": True}),
    "ijepa": ("IJepa", "Model", 32, HIDDEN, PATCHES),
    "dinov2": ("Dinov2", "Model", 28, HIDDEN, {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                                               "image_size": 28, "patch_size": 7}),
    "dinov3": ("DINOv3ViT", "Model", 32, HIDDEN, PATCHES),
    "siglip_vision": ("SiglipVision", "Model", 32, HIDDEN, PATCHES),
    "clip_vision": ("CLIPVision", "Model", 32, HIDDEN, PATCHES),
    "swin": ("Swin", "Model", 32, HIDDEN, WINDOWS),
    "swinv2": ("Swinv2", "Model", 32, HIDDEN, WINDOWS),
    "maskformer_swin": ("MaskFormerSwin", "Model", 32, HIDDEN, WINDOWS),
    "convnext": ("ConvNext", "Model", 64, HIDDEN, {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1]}),
    "convnextv2": ("ConvNextV2", "Model", 64, HIDDEN, {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1]}),
    "resnet": ("ResNet", "Model", 64, HIDDEN, RESIDUAL),
    "regnet": ("RegNet", "Model", 64, HIDDEN, {**RESIDUAL, "groups_width": 8}),
    "bit": ("Bit", "Model", 64, HIDDEN, {**RESIDUAL, "num_groups": 4}),
    "efficientnet": ("EfficientNet", "Model", 64, HIDDEN, {"width_coefficient": .25, "depth_coefficient": .2,
                                                           "hidden_dim": 80, "image_size": 64}),
    "mobilenet_v2": ("MobileNetV2", "Model", 64, HIDDEN, {"depth_multiplier": .35, "image_size": 64}),
    "mobilevit": ("MobileViT", "Model", 64, HIDDEN, {"image_size": 64, "hidden_sizes": [16, 24, 32],
                                                     "neck_hidden_sizes": [8, 8, 16, 24, 32, 40, 48]}),
    "mobilevitv2": ("MobileViTV2", "Model", 64, HIDDEN, {"image_size": 64, "width_multiplier": .25}),
    "pvt": ("PvtV2", "Model", 64, HIDDEN, STAGES),
    "poolformer": ("PoolFormer", "Model", 64, HIDDEN, {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
    "cvt": ("Cvt", "Model", 64, HIDDEN, {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 1, 1]}),
    "levit": ("Levit", "Model", 64, HIDDEN, {"image_size": 64, "hidden_sizes": [16, 24, 32], "depths": [1, 1, 1],
                                             "num_attention_heads": [2, 3, 4], "key_dim": [8, 8, 8]}),
    "focalnet": ("FocalNet", "Model", 32, HIDDEN, {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1],
                                                   "focal_levels": [2, 2], "focal_windows": [3, 3]}),
    "hiera": ("Hiera", "Model", 32, HIDDEN, {
        "embed_dim": 16, "image_size": [32, 32], "patch_size": [7, 7], "patch_stride": [4, 4], "patch_padding": [3, 3],
        "depths": [1, 1], "num_heads": [1, 2], "masked_unit_size": [4, 4], "query_stride": [2, 2], "num_query_pool": 1,
        "embed_dim_multiplier": 2.}),
    "swiftformer": ("SwiftFormer", "Model", 64, HIDDEN, {"image_size": 64, "embed_dims": [16, 24, 32, 48],
                                                         "depths": [1, 1, 2, 1]}),
    "textnet": ("TextNet", "Model", 64, HIDDEN, {}),
    "segformer": ("Segformer", "ForSemanticSegmentation", 64, ["logits"], {**STAGES, "decoder_hidden_size": 16}),
    "glpn": ("GLPN", "ForDepthEstimation", 64, ["predicted_depth"], {**STAGES, "decoder_hidden_size": 16}),
    "dpt": ("DPT", "ForDepthEstimation", 32, ["predicted_depth"], {**PATCHES, **PYRAMID, "is_hybrid": False,
                                                                   "backbone_out_indices": [0, 1, 2, 3], "num_hidden_layers": 4}),
    "yolos": ("Yolos", "ForObjectDetection", 32, ["logits", "pred_boxes"], {**PATCHES, "image_size": [32, 32],
                                                                            "num_detection_tokens": 5}),
}


def encoder(family, head, size, fields, values, **more):
    return images(Call(configured(family, head, **values), fields, ("pixel_values",)), size, **more)


def detr():
    backbone = transformers.ResNetConfig(**RESIDUAL, out_features=["stage4"])
    model = configured("Detr", "ForObjectDetection", use_timm_backbone=False, backbone_config=backbone, d_model=32,
                       encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                       encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=7, num_labels=5)
    return images(Call(model, ["logits", "pred_boxes"], ("pixel_values",)), 64)


def rt_detr():
    sizes = {**RESIDUAL, "hidden_sizes": [16, 32, 48, 64]}
    backbone = transformers.RTDetrResNetConfig(**sizes, out_features=["stage2", "stage3", "stage4"], layer_type="basic")
    model = configured("RTDetr", "ForObjectDetection", backbone_config=backbone, encoder_hidden_dim=32,
                       encoder_in_channels=[32, 48, 64], encoder_ffn_dim=64, encoder_attention_heads=4, d_model=32,
                       num_queries=8, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, decoder_layers=2,
                       decoder_attention_heads=4, num_labels=5, num_denoising=0, anchor_image_size=None)
    return images(Call(model, ["logits", "pred_boxes"], ("pixel_values",)), 64)


def depth_anything():
    backbone = transformers.Dinov2Config(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, image_size=28,
                                         patch_size=7, out_features=["stage1", "stage2", "stage3", "stage4"],
                                         reshape_hidden_states=False, apply_layernorm=True)
    model = configured("DepthAnything", "ForDepthEstimation", backbone_config=backbone, patch_size=7, **PYRAMID,
                       reassemble_hidden_size=32, head_in_index=-1, head_hidden_size=8)
    return images(Call(model, ["predicted_depth"], ("pixel_values",)), 28)


def sam():
    model = configured(
        "Sam", "Model",
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64, "patch_size": 8,
                       "output_channels": 16, "window_size": 4, "global_attn_indexes": [1], "mlp_dim": 64, "num_pos_feats": 8},
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16})
    points = torch.export.Dim("points")

    def inputs(batch, count):
        return (drawn(batch, 3, 64, 64), drawn(batch, 1, count, 2) * 20 + 30, torch.ones(batch, 1, count, dtype=torch.int64))
    return Exportable(Call(model, ["pred_masks", "iou_scores"], ("pixel_values", "input_points", "input_labels")),
                      [inputs(2, 2), inputs(3, 3)], [{0: BATCH}, {0: BATCH, 2: points}, {0: BATCH, 2: points}])


TEXT = {"vocab_size": VOCABULARY, **VIT, "max_position_embeddings": 64}


def clip():
    text = {**TEXT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    model = configured("CLIP", "Model", text_config=text, vision_config=PATCHES, projection_dim=24)
    inputs = [(*masked_tokens(2, 7), drawn(2, 3, 32, 32)), (*masked_tokens(3, 11), drawn(4, 3, 32, 32))]
    return Exportable(Call(model, ["logits_per_image"], ("input_ids", "attention_mask", "pixel_values")), inputs,
                      [{0: BATCH, 1: LENGTH}] * 2 + [{0: torch.export.Dim("images")}])


def siglip():
    model = configured("Siglip", "Model", text_config=TEXT, vision_config=PATCHES)
    inputs = [(tokens(2, 7), drawn(2, 3, 32, 32)), (tokens(3, 11), drawn(4, 3, 32, 32))]
    return Exportable(Call(model, ["logits_per_image"], ("input_ids", "pixel_values")), inputs,
                      [{0: BATCH, 1: LENGTH}, {0: torch.export.Dim("images")}])


MODELS = {
    **{name: functools.partial(encoder, *row) for name, row in IMAGES.items()},
    **{each.__name__: each for each in (detr, rt_detr, depth_anything, sam, clip, siglip)},
    "vit_opset23": functools.partial(encoder, *IMAGES["vit"], opset=23),
    "vit_script": functools.partial(encoder, *IMAGES["vit"], script=True),
    "swin_script": functools.partial(encoder, *IMAGES["swin"], script=True),
}
