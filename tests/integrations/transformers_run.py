"""A training with the Trainer of Hugging Face; run as a module by torchrun."""

import os
import sys
from pathlib import Path

from torch import nn
from transformers import TrainingArguments

from integrations import digits
from orthoframe import SupConLoss
from orthoframe.transformers import FrameTrainer, GeometryTrainerCallback


class Model(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.encoder, self.seen = digits.make_encoder(dropout), []

    def forward(self, pixels, index):
        if self.training:
            self.seen.append(index.tolist())
        return self.encoder(pixels)


def samples():
    images, labels = digits.rows()
    return [
        {"pixels": image, "labels": int(label), "index": number, "unused": "text"}
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


def make_trainer(folder, dropout=0.0, **options):
    settings = {
        "num_train_epochs": digits.EPOCHS,
        "optim": "sgd",
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "logging_strategy": "epoch",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "ddp_backend": "gloo" if "WORLD_SIZE" in os.environ else None,
        "dataloader_pin_memory": False,
    }
    loss = SupConLoss(digits.TEMPERATURE)
    trainer = FrameTrainer(
        model=Model(dropout),
        args=TrainingArguments(str(folder), **(settings | options)),
        train_dataset=samples(),
        eval_dataset=samples(),
        plan=digits.make_plan(),
        loss=loss,
    )
    trainer.values = []
    loss.register_forward_hook(lambda module, inputs, value: trainer.values.append(value.item()))
    return trainer


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    trainer = make_trainer(folder)
    callback = GeometryTrainerCallback(trainer, num_classes=10)
    trainer.add_callback(callback)
    trainer.train()
    result = {"seen": trainer.model.seen, "losses": trainer.values, "history": callback.history}
    result["logged"] = trainer.state.log_history
    digits.write(folder, trainer.args.process_index, result)
