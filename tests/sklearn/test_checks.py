"""What scikit-learn asks of every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from orthoframe.sklearn import FrameClassifier


# A small network and few epochs: it is the manners that are checked, and they are those of any size.
@parametrize_with_checks([FrameClassifier(hidden=(32,), epochs=20)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
