"""Image models of transformers that are made in no time: tiny, with random weights, saved as their users save them."""

import torch

SIDE = 32
IMAGENET = [0.485, 0.456, 0.406]
KINDS = ("resnet", "vit", "convnext", "dinov2", "swin", "clip")


def save_model(kind, folder, seed=0):
    """Write a model and its image processor to a folder; returns the model, as it was before it was written."""
    import transformers as hf
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(seed)
    tokens = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE, "patch_size": 8}
    square = {"height": SIDE, "width": SIDE}
    if kind == "resnet":
        config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
        model, processor = hf.ResNetModel(config), hf.ConvNextImageProcessorPil(size={"shortest_edge": SIDE})
    elif kind == "vit":
        model = hf.ViTModel(hf.ViTConfig(**tokens, intermediate_size=32))
        processor = hf.ViTImageProcessorPil(size=square)
    elif kind == "convnext":
        model = hf.ConvNextModel(hf.ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2))
        processor = hf.ConvNextImageProcessorPil(size={"shortest_edge": SIDE})
    elif kind == "dinov2":
        model = hf.Dinov2Model(hf.Dinov2Config(**tokens))
        processor = hf.BitImageProcessorPil(size={"shortest_edge": 40}, crop_size=square, image_mean=IMAGENET)
    elif kind == "swin":
        config = hf.SwinConfig(
            image_size=SIDE, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
        )
        model, processor = hf.SwinModel(config), hf.ViTImageProcessorPil(size=square, do_normalize=False)
    elif kind == "clip":
        text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        config = hf.CLIPConfig(
            vision_config={**tokens, "intermediate_size": 32}, text_config={**text, "vocab_size": 99}
        )
        model = hf.CLIPModel(config)
        processor = hf.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=square)
    elif kind == "mae":
        model = hf.ViTMAEModel(hf.ViTMAEConfig(**tokens, intermediate_size=32))
        processor = hf.ViTImageProcessorPil(size=square)
    else:
        model = hf.BertModel(hf.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=99))
        processor = hf.ViTImageProcessorPil(size=square)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return model
