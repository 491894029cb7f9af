"""What a designer should build: time, energy, gates and loss of rules of replay on four machines.

    python -m studies.chance.build

Decisions of scores are those of ``vilau_8f`` (51 % of eligible steps), priced as each rule computes
and stores; schedules have no scores. DRS schedules what scores decide, a static schedule the rest.
Losses are those of the benchmark and of free generation: the model in which the premise holds, half
of the steps of its layers but the first. Gates are those of the dispatcher DRS with its comparator,
synthesised; a schedule takes a counter of frames, which is not counted. Writes ``build.csv``,
``build.png`` and the table of ``README.md``.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim import load_design, load_trace, run
from carsim.cost.capacity import machine_shape
from carsim.decisions.replay import InputChange, Periodic, ReplayRule, Tas
from carsim.decisions.trace import Trace
from carsim.decoder.structures import Config
from carsim.hardware.technology.gates import dispatcher
from carsim.report.figures import style as plots
from studies.chance.benchmark import BY_LAYER, CHANGE, HERE, LEARNED, PERIODIC
from studies.chance.own import BITS, OFTEN, PART, RARELY
from studies.content import ROOT
from studies.drawing import drawing, legend_below
from studies.measured import FASTCAR, SMALL
from studies.rules import schedule
from studies.run import quote
from studies.table import markdown

DESIGNS = ("zcu102", "zcu102_16gb", "u280", "asic_28nm")
TAS = Tas(form="paper")
HALF = 0.5
WIDTH = 128
"""Hidden size of the decoder of the trace; a machine compares the same share of its own."""


@dataclass(frozen=True)
class Choice:
    """What a designer may build.

    Attributes:
        name: In the table.
        rule: As the machine prices it.
        of: Name of the rule in the benchmark.
        way: What is added there.
        planned: Decisions are a schedule's.
    """

    name: str
    rule: ReplayRule
    of: str
    way: str = "replay"
    planned: bool = False


CHOICES = (
    Choice("TAS, DRS (FastCar)", TAS, FASTCAR),
    Choice("TAS with a gain, DRS", TAS.model_copy(update={"gain": HALF}), FASTCAR, "gain"),
    Choice("change of input, DRS", InputChange(), f"{CHANGE}, one threshold"),
    Choice(
        "learned score, DRS", InputChange(elements=WIDTH // PART, bits=BITS),
        f"{LEARNED}, one threshold",
    ),
    Choice("periodic", Periodic(), PERIODIC, planned=True),
    Choice("periodic, halved", Periodic(gain=HALF), PERIODIC, "half", planned=True),
    Choice("schedule by layer", Periodic(), BY_LAYER, planned=True),
)  # fmt: skip


def decisions(choice: Choice, like: Trace) -> Trace:
    """A trace of the same video with the decisions and the costs of a choice."""
    meta = like.meta.model_copy(update={"rule": choice.rule})
    if not choice.planned:
        return replace(like, meta=meta)
    config = Config(like.meta.decoded, like.tokens_per_frame, like.n_frames)
    if choice.of == PERIODIC:
        plan = schedule(config, HALF)
    else:
        plan = schedule(config, OFTEN)
        rare = slice(-round((like.n_layers - 1) / 3), None)  # where they stand changes no time
        plan[:, rare] = schedule(config, RARELY)[:, rare]
    every_row = np.repeat(plan[..., None], like.replay.shape[2], axis=2)
    return Trace.from_decisions(every_row, replace(like, meta=meta), choice.name)


def simulated(like: Trace, losses: pd.DataFrame, generated: pd.Series) -> pd.DataFrame:
    """A row for each design and choice.

    Args:
        like: Decisions of scores.
        losses: Of the benchmark, by rule.
        generated: What dense decoding finds less likely in generated clips, by rule and way.
    """
    rows = []
    for name in DESIGNS:
        design = load_design(ROOT / f"configs/{name}.yaml")
        machine, body = design.machine, design.model.body
        sequences = machine.drs.index_register_bits
        gates = dispatcher("drs", sequences, machine.cores).gate_equivalents
        shape = machine_shape(design.model)
        for choice in CHOICES:
            trace = decisions(choice, like)
            found = {row.variant.key: row for row in run(design, [trace], allow_misfit=True).rows}
            dense = found["dense/static"]
            own = found["replay/static" if choice.planned else "replay/drs"]
            loss = losses.loc[choice.of]
            rule = choice.rule.at_width(WIDTH, body.hidden_size)
            held = rule.work(shape).held_bytes * trace.tokens_per_frame * body.n_layers
            rows.append(
                {
                    "design": name,
                    "choice": choice.name,
                    "replayed": own.replay_eligible,
                    "seconds": own.seconds_per_video,
                    "speedup": dense.seconds_per_video / own.seconds_per_video,
                    "joules": own.energy_per_video.value_j,
                    "dense_seconds": dense.seconds_per_video,
                    "dense_joules": dense.energy_per_video.value_j,
                    "gates": 0 if choice.planned else round(gates),
                    "held_mb_a_row": held / 1e6,
                    "loss_ratio": loss["ratio"],
                    "loss": loss[choice.way],
                    "loss_generating": generated.get((generates(choice), choice.way)),
                }
            )
    return pd.DataFrame(rows)


def generates(choice: Choice) -> str:
    """Name of a choice's rule in the study of free generation."""
    return choice.of.removesuffix(", one threshold")


def table_of(found: pd.DataFrame) -> str:
    """The table of the README: a row for each choice."""
    header = ["rule", "nats lost, true tokens", "generating", "gates", "MB held a row"]
    header += [f"{name}: s, J" for name in DESIGNS]
    first = found.drop_duplicates("design")
    cells = [f"{row.dense_seconds:.1f}, {row.dense_joules:,.0f}" for row in first.itertuples()]
    rows = [["dense", "0", "0", "0", "0", *cells]]
    for name, part in found.groupby("choice", sort=False):
        one = part.iloc[0]
        gates = f"{part['gates'].min():,} to {part['gates'].max():,}" if one["gates"] else "0"
        cells = [f"{row.seconds:.1f}, {row.joules:,.0f}" for row in part.itertuples()]
        drift = "" if pd.isna(one["loss_generating"]) else f"{one['loss_generating']:.3f}"
        held = f"{one['held_mb_a_row']:.1f}"
        rows.append([str(name), f"{one['loss']:.3f}", drift, gates, held, *cells])
    return markdown(header, rows)


def draw(axes: Axes, part: pd.DataFrame) -> None:
    """Loss against speed-up on one machine."""
    colours = (plots.BLUE, plots.SKY, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.YELLOW)
    for row, colour in zip(part.itertuples(), (*colours, plots.VERMILION), strict=True):
        mark = "o" if row.gates else "D"
        axes.plot(row.speedup, row.loss, mark, color=colour, label=row.choice, markersize=7)
    axes.set(title=part["design"].iloc[0], xlabel="speed-up over dense", ylim=(0, None))
    axes.grid(True)


def main() -> None:
    """Simulate, write and draw."""
    benchmark = pd.read_csv(HERE / "benchmark.csv").query(f"model == {SMALL!r} and share == {HALF}")
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    free = pd.read_csv(HERE / "free.csv").set_index(["rule", "way"])["loss_less_dense"]
    found = simulated(like, benchmark.set_index("rule"), free)
    found.round(4).to_csv(HERE / "build.csv", index=False)
    quote(HERE / "README.md", {"build": table_of(found)})
    print(table_of(found))
    title = "What to build: up and left is worse, diamonds need no scores and no DRS"
    with drawing(HERE / "build.png", 11, 3.6, title) as figure:
        panels = figure.subplots(1, len(DESIGNS), sharey=True)
        for axes, (_, part) in zip(panels, found.groupby("design", sort=False), strict=True):
            draw(axes, part)
        panels[0].set_ylabel("loss over dense, nats per token")
        legend_below(figure, panels[0], 4)


if __name__ == "__main__":
    main()
