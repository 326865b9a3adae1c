"""Images in folders, and what is refused."""

import os
import re

import numpy as np
import pytest
import torch
from PIL import Image

from orthoframe.data import load_data
from orthoframe.errors import DataError, OrthoframeError

RANDOM = np.random.default_rng(0)


def save(path, *, size=(6, 5), mode="RGB"):
    """A random image of (width, height), and what is in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "RGBA": 4}.get(mode)
    pixels = RANDOM.integers(0, 256, (size[1], size[0], *([channels] if channels else [])), dtype=np.uint8)
    if mode == "I;16":
        pixels = pixels.astype(np.uint16) * 256
    Image.fromarray(pixels).save(path)
    return pixels


def test_a_fifth_of_each_class_is_held_out(tmp_path):
    cats = [save(tmp_path / "cat" / f"{i}.png") for i in range(10)]
    for i in range(5):
        save(tmp_path / "dog" / f"{i}.PNG")
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / "dog" / ".hidden.png").write_text("not an image")
    (tmp_path / ".cache").mkdir()
    data = load_data(f"folder:{tmp_path}", seed=1)
    assert data.train.classes == ("cat", "dog")
    assert data.test.labels.tolist() == [0, 0, 1]
    assert data.train.labels.tolist() == [0] * 8 + [1] * 4
    assert data.train.pixels.shape == (12, 3, 5, 6)
    seen = {bytes(image.permute(1, 2, 0).numpy().tobytes()) for image in [*data.train.pixels, *data.test.pixels]}
    assert {cat.tobytes() for cat in cats} <= seen
    again = load_data(f"folder:{tmp_path}", seed=1)
    assert torch.equal(again.test.pixels, data.test.pixels)


@pytest.mark.parametrize("pattern", [r"clip(\d+)", r"clip\d+", r"(clip\d+)_|$"])
def test_groups_by_a_pattern_stay_together(tmp_path, pattern):
    """A clip may have pictures of two classes, whose folders are not a part of what names it."""
    for i in range(100):
        save(tmp_path / "ab"[i % 2] / f"clip{i // 10}_{i}.png")
    data = load_data(f"folder:{tmp_path}", group_by=pattern, validation=0.25)
    parts = [part.origins(range(len(part))) for part in (data.train, data.validation, data.test)]
    clips = [{data.files[place].name.split("_")[0] for place in places} for places in parts]
    assert list(map(len, clips)) == [6, 2, 2]
    assert len(set.union(*clips)) == 10


def test_images_without_a_group_stand_alone(tmp_path):
    for i in range(100):
        save(tmp_path / "ab"[i % 2] / (f"clip{i // 10}_{i}.png" if i < 50 else f"{i}.png"))
    data = load_data(f"folder:{tmp_path}", group_by=r"(clip\d+)_|$")
    held = [data.files[place].name for place in data.test.origins(range(len(data.test)))]
    clips = [name for name in held if name.startswith("clip")]
    assert len(clips) == 10 * len({name.split("_")[0] for name in clips})
    assert len(held) == 20
    assert len(clips) < 20


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(clip\d)", r"2 of 6 images, such as a/other.png, do not match group_by='.*'; end it with '\|\$', and each"),
        ("(clip", r"is not a regular expression: missing \)"),
        (
            "[a-z]",
            "too few groups to hold test images out; use smaller groups, folders train and test, or split_column",
        ),
        ("png", "too few groups"),
    ],
)
def test_patterns_that_are_refused(tmp_path, pattern, said):
    for name in ("clip1_1", "clip1_2", "other"):
        save(tmp_path / "a" / f"{name}.png")
        save(tmp_path / "b" / f"{name}.png")
    with pytest.raises(OrthoframeError, match=said):
        load_data(f"folder:{tmp_path}", group_by=pattern)


def test_a_pattern_whose_group_is_on_both_sides_of_a_split(tmp_path):
    for name in ("train/a/clip1_1", "train/b/clip1_2", "test/a/clip1_3", "test/b/clip2_1"):
        save(tmp_path / f"{name}.png")
    with pytest.raises(DataError, match="group 'clip1' is in train and in test; a group must be on one side"):
        load_data(f"folder:{tmp_path}", group_by=r"clip\d")


def test_folders_that_say_which_is_the_test(tmp_path):
    for part, names in (("train", ["b/1.png", "a/2.png", "a/1.png"]), ("test", ["b/9.png"])):
        for name in names:
            pixels = save(tmp_path / part / name)
    data = load_data(f"folder:{tmp_path}")
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == ([0, 0, 1], [1])
    assert np.array_equal(data.test.pixels[0].permute(1, 2, 0).numpy(), pixels)
    save(tmp_path / "test" / "c" / "1.png")
    with pytest.raises(DataError, match=r"c: the training images have no such class; classes are a, b"):
        load_data(f"folder:{tmp_path}")


@pytest.mark.parametrize(("modes", "channels"), [("LL", 1), (["L", "RGB"], 3), (["RGB", "RGB"], 3)])
def test_grey_if_all_are_grey(tmp_path, modes, channels):
    contents = [save(tmp_path / "a" / f"{i}.png", mode=mode) for i, mode in enumerate(modes)]
    data = load_data(f"folder:{tmp_path}")
    images = sorted([*data.train.pixels, *data.test.pixels], key=lambda image: image.tolist())
    expected = [np.broadcast_to(c.reshape(5, 6, -1)[..., :3], (5, 6, channels)) for c in contents]
    expected.sort(key=lambda image: image.transpose(2, 0, 1).tolist())
    for image, grey in zip(images, expected, strict=True):
        assert np.array_equal(image.permute(1, 2, 0).numpy(), grey)


def test_jpeg_is_read(tmp_path):
    for i in range(2):
        Image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / f"{i}.jpg")
    (tmp_path / "red").mkdir()
    for i in range(2):
        (tmp_path / f"{i}.jpg").rename(tmp_path / "red" / f"{i}.jpg")
    data = load_data(f"folder:{tmp_path}")
    assert data.train.pixels[0].float().mean((1, 2)).sub(torch.tensor([200.0, 10, 10])).abs().max() < 3


def test_a_size_is_chosen_from_the_images(tmp_path):
    for i, size in enumerate([(60, 40), (50, 50), (300, 200)]):
        save(tmp_path / "a" / f"{i}.png", size=size)
    assert load_data(f"folder:{tmp_path}").train.image_shape == (3, 48, 48)
    assert load_data(f"folder:{tmp_path}", size=(20, 30)).train.image_shape == (3, 20, 30)
    for i in range(3):
        save(tmp_path / "a" / f"{i}.png", size=(30, 20))
    assert load_data(f"folder:{tmp_path}").train.image_shape == (3, 20, 30)
    for i in range(3):
        save(tmp_path / "a" / f"{i}.png", size=(800, 600))
    assert load_data(f"folder:{tmp_path}").train.image_shape == (3, 224, 224)


def test_a_broken_image_is_refused_by_name(tmp_path):
    for i in range(3):
        save(tmp_path / "a" / f"{i}.png", size=(40, 40))
    broken = tmp_path / "a" / "1.png"
    whole = broken.read_bytes()
    for content in (b"", b"garbage", whole[:-1000], whole[:30]):
        broken.write_bytes(content)
        with pytest.raises(DataError, match=r"1\.png: the image is broken"):
            load_data(f"folder:{tmp_path}")
    broken.write_bytes(b"")
    (tmp_path / "a" / "2.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"1\.png: the image is broken .*; 1 more of 3 cannot be read either"):
        load_data(f"folder:{tmp_path}")


def test_folders_of_another_form_are_refused(tmp_path):
    with pytest.raises(DataError, match="none: no such folder"):
        load_data(f"folder:{tmp_path / 'none'}")
    with pytest.raises(DataError, match="expected a sub-folder of images for each class"):
        load_data(f"folder:{tmp_path}")
    save(tmp_path / "1.png")
    with pytest.raises(DataError, match="expected a sub-folder of images for each class"):
        load_data(f"folder:{tmp_path}")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match=r"a: there are no images in it \(\.png, \.jpg"):
        load_data(f"folder:{tmp_path}")
    save(tmp_path / "train" / "a" / "1.png")
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="test: there is no sub-folder of images in it"):
        load_data(f"folder:{tmp_path}")


def test_one_level_or_two_too_high(tmp_path):
    save(tmp_path / "birds" / "Images" / "cat" / "1.png")
    (tmp_path / "birds" / "Annotations").mkdir()
    for path in (tmp_path / "birds", tmp_path):
        with pytest.raises(DataError, match=r"did you mean folder:.*birds/Images\?"):
            load_data(f"folder:{path}")


def test_classes_of_one_image_leave_none_for_the_test(tmp_path):
    for name in "ab":
        save(tmp_path / name / "1.png")
    with pytest.raises(DataError, match="no class has enough images to hold test images out; at least 2 are needed"):
        load_data(f"folder:{tmp_path}")


def test_a_validation_folder_and_a_class_called_train(tmp_path):
    for part in ("train", "val", "test"):
        for name in ("a/1.png", "b/1.png"):
            save(tmp_path / "three" / part / name)
    data = load_data(f"folder:{tmp_path / 'three'}", validation=0.5)
    assert (len(data.train), len(data.validation), len(data.test)) == (2, 2, 2)
    for name in ("train/1.png", "train/2.png", "test/1.png", "test/2.png"):
        save(tmp_path / "two" / name)
    assert load_data(f"folder:{tmp_path / 'two'}").train.classes == ("test", "train")


def test_validation_images_are_held_out_beside_the_test(tmp_path):
    for name, count in (("a", 40), ("b", 10), ("c", 1)):
        for i in range(count):
            save(tmp_path / name / f"{i}.png")
    data = load_data(f"folder:{tmp_path}", validation=0.25)
    assert data.test.class_counts == [8, 2, 0]
    assert data.validation.class_counts == [8, 2, 0]
    assert data.train.class_counts == [24, 6, 1]
    kinds = [set(part.checksums.tolist()) for part in (data.train, data.validation, data.test)]
    assert sum(map(len, kinds)) == len(kinds[0] | kinds[1] | kinds[2]) == 51


@pytest.mark.parametrize("above", ["one", "one/two"])
def test_the_folder_of_all_parts_is_advised(tmp_path, above):
    """And not one of them, which might be the test."""
    for part in ("train", "test"):
        for name in ("a", "b"):
            save(tmp_path / above / "set" / part / name / "1.png")
    whole = re.escape(str(tmp_path / above / "set"))
    with pytest.raises(DataError, match=rf"did you mean folder:{whole}\?$"):
        load_data(f"folder:{tmp_path / 'one'}")
    assert len(load_data(f"folder:{tmp_path / above / 'set'}").train) == 2


@pytest.mark.parametrize(
    ("name", "shown"), [(b"caf\xe9", r"caf\udce9"), (b"\x1b[31m", r"\x1b[31m"), (b"a\nb", r"a\nb")]
)
def test_a_class_with_a_name_that_cannot_be_written(tmp_path, name, shown):
    for folder in (os.fsdecode(name), "other"):
        for i in range(9):
            save(tmp_path / folder / f"{i}.png")
    said = re.escape(f"{tmp_path}: class '{shown}': its name is not UTF-8, or has control characters")
    with pytest.raises(DataError, match=said):
        load_data(f"folder:{tmp_path}")


def test_other_writing_is_no_obstacle(tmp_path):
    names = ("größe", "\u0915\u094d\u200d\u0937", "=1", "\U0001f436 dog")
    for name in names:
        for i in range(5):
            save(tmp_path / name / f"{i}.png")
    assert set(load_data(f"folder:{tmp_path}").train.classes) == set(names)


def test_no_test_images_are_advised_as_training_images(tmp_path):
    for part in ("test", "validation"):
        save(tmp_path / "one" / part / "a" / "1.png")
    with pytest.raises(DataError, match="there are no images in it") as caught:
        load_data(f"folder:{tmp_path}")
    assert "did you mean" not in str(caught.value)
