"""Loops are compiled at their first call, and numba is imported then."""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import sys
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from monitor.local import neighbour_loops
    from monitor.local.neighbour_loops import city_block

    assert "numba" not in sys.modules
    points = np.array([[0.0, 1.0]])
    with ThreadPoolExecutor(8) as pool:
        distances = list(pool.map(lambda _: float(city_block(points, others=points.T + 2.0)[0, 0]), range(8)))
    assert distances == [4.0] * 8, distances

    from numba.core.dispatcher import Dispatcher

    # A loop calls others of its module by their names, which are numba's functions now.
    assert isinstance(neighbour_loops._distances, Dispatcher)
    assert city_block.__name__ == "city_block" and "L1 distances" in city_block.__doc__
    """
)


def test_the_first_calls_of_a_loop_may_come_from_several_threads() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
