"""A model in use that classifies images."""

import torch

from clearhead.inspection.explanation import explain_pass
from clearhead.inspection.image import patch_image
from clearhead.tasks.classification.model import Classification


class ImageClassificationModel:
    task = "image_classification"
    name = ""

    def __init__(self, model, processor):
        self.model, self.processor = model.eval(), processor
        self.labels = processor.labels
        self.samples = {}

    @torch.no_grad()
    def classify(self, image):
        row = self.model(self.processor([image])).softmax(-1)[0].tolist()
        probabilities = dict(zip(self.labels, row))
        return Classification("", max(probabilities, key=probabilities.get), probabilities)

    def explain(self, image, *, names=("*",)):
        pixels = self.processor.pixels([image])
        found = self.classify(image)
        return explain_pass(
            self.model,
            lambda: self.model(self.processor.normalize(pixels)),
            {},
            names,
            text=str(image),
            output=found.label,
            found=found,
            images={"image": patch_image(pixels[0], self.model.config)},
        )
