"""What scikit-learn asks of every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from orthoframe.sklearn import FrameClassifier

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are drawn by chance: a weight of 2 is a row that is there twice in the mean over epochs, not the same "
        "sequence of batches; what is exact (weights of 0, scaled weights, centres and scales) is in test_weights.py"
    ),
    "check_sample_weight_equivalence_on_sparse_data": "rows are dealt into halves by chance, see above",
    "check_class_weight_classifiers": (
        "it wants a class of large weight to be predicted nearly always; the nearest centre takes all classes for "
        "equally frequent, and at a frame it does so whatever share of the rows they have in training"
    ),
}


# A small network and few epochs: it is the manners that are checked, and they are those of any size.
@parametrize_with_checks(
    [
        FrameClassifier(hidden=(32,), epochs=20, adjust=None),
        FrameClassifier(hidden=()),  # takes sparse rows
    ],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
