"""What scikit-learn expects of every estimator."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM

# As for SVC itself: gamma="scale" sees rows of weight zero, and tol is not tight enough. Tests of
# weights that repeat and remove rows take their place (test_twins.py, test_svc.py).
EXPECTED_FAILURES = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "sample_weight is not equivalent to removing or repeating rows at the default gamma and tol",
)
OF_NU = {"check_class_weight_classifiers": "weights of 1000 to 1e-4 leave no feasible nu"}


def expected_failures(estimator):
    return EXPECTED_FAILURES | (OF_NU if isinstance(estimator, AENuSVC) else {})


@parametrize_with_checks(
    [
        AESVC(),
        AESVC(hull_tol=0),
        AESVC(refine="exact"),
        *(
            estimator(**parameters)
            for estimator in (AESVC, AENuSVC, AESVR, AENuSVR, AEOneClassSVM)
            for parameters in ({"gamma": 1.0}, {"refine": 1, "subset_size": 10})
        ),  # a number for gamma: these have partial_fit
        *(estimator(max_vectors=50) for estimator in (AESVC, AESVR, AEOneClassSVM)),
        AESVC(kernel="precomputed"),
        AENuSVC(kernel="precomputed", nu=0.2),
        AESVR(kernel="precomputed"),
        AENuSVR(kernel="precomputed"),
    ],  # the checks of outlier detectors do not know precomputed kernels
    expected_failed_checks=expected_failures,
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)
