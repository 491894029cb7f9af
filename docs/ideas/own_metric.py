"""A metric: joules of a video per frame.

It stands in ``--full``, ``--json``, sweeps and frames. With ``shown="headline"`` it is in the table
of policies as well.
"""

from carsim.metrics import METRICS, Metric


def joules_per_frame(row, run):
    """Joules of a video over its frames.

    ``row`` is a policy that was simulated (``carsim.account.row.RowResult``), and ``run`` has the
    design and its fit.
    """
    joules = METRICS["energy_per_video_j"].of(row, run)
    return joules / row.simulation.plan.video.n_frames


METRICS.register(
    Metric(
        name="joules_per_frame",
        unit="J",
        title="joules per frame",
        meaning="Energy of a video divided by its frames",
        formula="energy_per_video_j / frames",
        better="lower",
        value=joules_per_frame,
    )
)
