"""Texts with imbalanced labels: embeddings of sentences become features whose classes are orthogonal.

The sentences are made here, and embedded with scikit-learn, so that nothing is downloaded. With a sentence transformer,
`embed` is one line: `SentenceTransformer("all-MiniLM-L6-v2").encode(texts, convert_to_tensor=True)`.
Run it with `python examples/text_embeddings.py`; it takes a few seconds.
"""

import random

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from orthoframe import BatchPlan, FrameHead, NearestCentre, SupConLoss, measure

# Tickets of a help desk: how many of each kind, and what they are about.
KINDS = {
    "billing": (300, ["invoice", "refund", "card", "charge", "receipt"]),
    "login": (150, ["password", "account", "code", "email", "session"]),
    "delivery": (40, ["parcel", "courier", "address", "tracking", "box"]),
    "privacy": (12, ["data", "consent", "deletion", "export", "record"]),
}
OPENINGS = ["Hello, my {} is wrong and", "I cannot find the {}, and", "Why did the {} change? Also"]
ENDINGS = ["the {} does not work.", "I still wait for my {}.", "nobody answers about the {}."]


def sentences(part: float, seed: int) -> tuple[list[str], list[str]]:
    """Texts and their kinds; in one of ten, one of the two words is of another kind."""
    draw = random.Random(seed)
    everything = [word for _, words in KINDS.values() for word in words]
    texts, kinds = [], []
    for kind, (count, words) in KINDS.items():
        for _ in range(max(4, int(part * count))):
            other = draw.choice(everything if draw.random() < 0.1 else words)
            texts.append(f"{draw.choice(OPENINGS).format(draw.choice(words))} {draw.choice(ENDINGS).format(other)}")
            kinds.append(kind)
    return texts, kinds


def embed(train: list[str], test: list[str]) -> tuple[Tensor, Tensor]:
    """Embeddings `[rows, 32]`: words by their rarity, then the 32 strongest directions."""
    embedder = make_pipeline(TfidfVectorizer(), TruncatedSVD(32, random_state=0))
    rows, others = embedder.fit_transform(train), embedder.transform(test)
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(others, dtype=torch.float32)


def main() -> None:
    """Measure the embeddings, train a small head on them, and measure again."""
    torch.manual_seed(0)
    texts, kinds = sentences(1.0, seed=0)
    test_texts, test_kinds = sentences(0.3, seed=1)
    rows, test_rows = embed(texts, test_texts)
    print(f"Before: distance to the frame {measure(rows, kinds).delta_of:.3f}.")

    names, labels = np.unique(kinds, return_inverse=True)
    targets = torch.from_numpy(labels)
    plan = BatchPlan(kinds, batch_size=64)
    head = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), FrameHead(128, 32))
    criterion, optimizer = SupConLoss(temperature=0.2), torch.optim.Adam(head.parameters(), lr=1e-3)
    for epoch in range(40):
        for batch in map(torch.from_numpy, plan.batches(epoch)):
            optimizer.zero_grad()
            criterion(head(rows[batch]), targets[batch]).backward()
            optimizer.step()

    features, test_features = head(rows).detach(), head(test_rows).detach()
    print(f"After:  distance to the frame {measure(features, kinds).delta_of:.3f}.")
    centres = torch.stack([features[targets == c].mean(0) for c in range(len(names))])
    predicted = names[NearestCentre(centres).predict(test_features).numpy()]
    for name in names:
        right = np.mean(predicted[np.array(test_kinds) == name] == name)
        print(f"{name:>9}: {right:.0%} of {test_kinds.count(name)} new texts are recognised")


if __name__ == "__main__":
    main()
