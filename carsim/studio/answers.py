"""Answers to what happens on the page, as properties of its parts: ``ID.PROPERTY`` -> value.

They are pure functions of what the page holds, so that any process can give them. Parts that are
not named keep what they show.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dash import html

from carsim.base.errors import InputError
from carsim.design.document import design_yaml
from carsim.explore.expression import Expression
from carsim.explore.target import SAY, Wanted, search_target
from carsim.explore.tricks import tricks_of, tricks_table
from carsim.report.compare import RunComparison
from carsim.report.compare_words import changed_table, headline, spec_table
from carsim.report.explorer import cheapest_near, explorer, worth_table
from carsim.report.figures import Shown, shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.looks import look_of
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import layer_plot, record_layer, waits_table
from carsim.report.html import fragment, unbroken
from carsim.report.run_page import TileChange, tile_changes, tiles
from carsim.report.run_tables import fit_table, held, limits_note, limits_table
from carsim.report.run_words import Section
from carsim.report.screen import facts
from carsim.report.stored import StoredRun
from carsim.report.stored_study import read_study
from carsim.report.target import target_sections
from carsim.studio import sweep, view
from carsim.studio.fields import FIELDS, MENUS, SLIDERS, number_or
from carsim.studio.page import KINDS, PLACES, SWEPT
from carsim.studio.point import SimulatedPoint, point_of
from carsim.studio.reach import Reach, through_the_gate
from carsim.studio.state import TabState
from carsim.workload.workload import Workload

Parts = dict[str, Any]
"""Properties of the page."""

CONTROLS = (*FIELDS, "set", "store", *SWEPT)
"""Controls below which a refusal is told."""

CHANGED = (
    "url.search",
    "shown.data",
    "trouble.children",
    "store.value",
    "pinned.hidden",
    *(f"{key}.value" for key in FIELDS),
    *(f"{key}.value" for key in SWEPT),
    *(f"{key}-slider.value" for key in SLIDERS),
    *(f"of-{kind}.hidden" for kind in KINDS),
    *(f"{key}.options" for key in MENUS),
    *(f"{key}-error.children" for key in CONTROLS),
    "title.children",
    "tiles.children",
    "misfit.children",
    "limits.children",
    "answer.children",
    "command.children",
    "breakdown-place.children",
    "roofline-place.children",
)
"""Properties that answer at once."""

NONE = "none: decisions are assumed"

MOST_SPLITS = 500
"""Boxes that the proof of a search by target splits: the page answers in less than a minute."""


@dataclass(frozen=True)
class Answers:
    """Answers of a studio.

    Attributes:
        start: What an address without a design shows.
        reach: Files that may be read.
        command_of: The command that simulates a state in a terminal.
    """

    start: TabState
    reach: Reach
    command_of: Callable[[TabState], str]

    @through_the_gate
    def begin(self) -> None:
        """Simulate what is shown first, before anybody asks."""
        self._point(self.start)

    @through_the_gate
    def first(self, search: str) -> str:
        """HTML of an answer for as long as the page's scripts are being loaded.

        Args:
            search: The address.
        """
        point = self._point(self._state(search))
        plot = breakdown_plot(shown_policies({"": point.run}))
        looks = {series.name: look_of(series.name).css for series in plot.panels[0].series}
        return fragment(
            "first.html", title=_title(point), tiles=tiles(point.run), plot=plot, looks=looks
        )

    @through_the_gate
    def change(
        self,
        trigger: str | None,
        search: str | None,
        values: Mapping[str, Any],
        slid: Mapping[str, Any] | None,
        shown: str | None,
        there: str | None,
    ) -> Parts:
        """From any change to the new state, and to everything that follows from it.

        Args:
            trigger: Name of the part that has changed.
            search: The address.
            values: Texts of the controls.
            slid: Slider that was moved, and its stop.
            shown: State that is shown; None for none yet.
            there: Name of the first graph, if it is there already.
        """
        state = self._state(search)
        before = self._point(state)
        if shown is None:
            return self._everything(state, before, shown, there) | _texts(state, before, {})
        if trigger in (None, "url"):
            if state.query == shown:
                return {}
            return self._everything(state, before, shown, there) | _texts(state, before, values)
        if trigger == "slid" and slid is not None:
            key = slid["key"]
            stop = int(slid["value"])
            text = str(stop) if key in PLACES else FIELDS[key].options[stop]
        else:
            key = str(trigger)
            text = str(values.get(key) or "").strip()
        try:
            after = _after(state, before, key, text)
            if after.query == state.query:
                return {}
            point = self._point(after)
            others = {name: value for name, value in values.items() if name != key}
            return self._everything(after, point, shown, there) | _texts(after, point, others)
        except InputError as error:
            return _refused(key, text, error)

    @through_the_gate
    def sweep(self, shown: str, there: str | None) -> Parts:
        """A figure over the values of one or two fields."""
        state = self._state(shown)
        if not state.over:
            return {"sweep-place.children": []}
        try:
            return view.drawn("sweep", sweep.swept(state, self.reach), there)
        except InputError as error:
            return {"sweep-place.children": view.alert([str(error.named())])}

    @through_the_gate
    def tricks(self, shown: str, clicks: int | None) -> Parts:
        """Every policy, and pairs of them, on the machine of the design."""
        if not clicks:
            return {}
        state = self._state(shown)
        work = Workload("trace", traces=(state.trace,)) if state.trace else state.work
        table = tricks_table(tricks_of(self._point(state).design, work))
        return {"tricks.children": view.table_of(table, "policies and pairs of them")}

    @through_the_gate
    def target(self, shown: str, text: str | None) -> Parts:
        """The machine that reaches a target at the least cost."""
        if not text:
            return {"machines.children": []}
        state = self._state(shown)
        model = FIELDS["model"].text(state, self._point(state).design)
        if not model:
            return {"target-error.children": f"the model of {state.design} has no preset"}
        try:
            wanted = Wanted(state.work, Expression(text, "target", SAY), model=model)
            machines = search_target(wanted, most_splits=MOST_SPLITS)
            sections = view.sections(target_sections(wanted, machines))
        except InputError as error:
            return {"target-error.children": str(error.named())}
        return {"machines.children": sections, "target-error.children": ""}

    @through_the_gate
    def timeline(self, shown: str, there: str | None) -> Parts:
        """One layer of one step."""
        state = self._state(shown)
        point = self._point(state)
        steps = point.report.chosen.simulation.plan.n_steps
        layers = point.design.model.body.n_layers
        layer_step = record_layer(
            point.report,
            step=_chosen(state.step, steps),
            layer=_chosen(state.layer, layers),
        )
        plot = replace(layer_plot(layer_step), misfit=not point.run.fits)
        waits = waits_table(layer_step)
        parts = view.drawn("timeline", plot, there)
        parts["step.max"] = steps - 1
        parts["step.value"] = layer_step.step
        parts["layer.max"] = layers - 1
        parts["layer.value"] = layer_step.layer
        parts["waits.children"] = view.table_of(waits, "the longest waits") if waits.rows else []
        return parts

    @through_the_gate
    def resolved(self, shown: str) -> Parts:
        """The design in full."""
        return {"yaml.children": design_yaml(self._point(self._state(shown)).design)}

    @through_the_gate
    def comparison(self, shown: str) -> Parts:
        """Pinned designs beside this one."""
        state = self._state(shown)
        point = self._point(state)
        elements: list[Any] = []
        for query in state.pins:
            pinned = TabState.of_query(query)
            comparison = RunComparison(self._point(pinned).run, point.run)
            summary = html.Summary("What differs, and figures that changed")
            fields = view.table_of(spec_table(comparison), "what differs")
            figures = view.table_of(changed_table(comparison), "figures of both")
            sentence = f"{pinned.title} (A), and this design (B): {headline(comparison)}"
            elements.append(html.P(sentence))
            elements.append(html.Details([summary, fields, figures]))
        return {"comparison.children": elements}

    @through_the_gate
    def front(self, shown: str, fronted: Sequence[str] | None, ticks: int | None) -> Parts:
        """The points of a sweep; they are read again if its store has changed.

        Args:
            shown: State that is shown.
            fronted: Name and edition of the store whose points are there; None without any.
            ticks: How often the page has looked for further points, which a sweep may add.
        """
        name = self._state(shown).store
        nothing: Parts = {
            "front-section.hidden": True,
            "explored.data": None,
            "fronted.data": None,
            "tick.disabled": True,
        }
        if not name:
            return nothing if fronted else {}
        try:
            folder = self.reach.store(name)
            edition = [name, sweep.edition(folder)]
            if fronted == edition:
                return {}
            study = read_study(folder)
            document = explorer(study)
            table = view.table_of(worth_table(study), "what each axis is worth")
        except InputError as error:
            return nothing | {"store-error.children": str(error.named())}
        problem = "" if document else f"{name}: no point fits and meets the constraints yet"
        return {
            "front-section.hidden": document is None,
            "front-title.children": f"{study.name}: {study.outcome}",
            "explored.data": document,
            "worth.children": table if document else [],
            "near.children": cheapest_near(study) if document else "",
            "fronted.data": edition,
            "tick.disabled": not study.is_part,
            "store-error.children": problem,
        }

    @through_the_gate
    def open_point(self, shown: str, opened: Any) -> Parts:
        """The point of the sweep whose design was asked for."""
        if not opened:
            return {}
        state = self._state(shown)
        after = sweep.opened(state, self.reach.store(state.store), opened["point"])
        return {"url.search": after.query, "trouble.children": ""}

    def _state(self, search: str | None) -> TabState:
        """The state of an address; the one to start with where it says nothing."""
        if not search or search == "?":
            return self.start
        return TabState.of_query(search, self.start.design)

    def _point(self, state: TabState) -> SimulatedPoint:
        """The simulated design of a state."""
        return point_of(state, self.reach)

    def _everything(
        self, state: TabState, point: SimulatedPoint, shown: str | None, there: str | None
    ) -> Parts:
        """All that follows from a state but the texts of its fields.

        Results are left out where they are shown already.
        """
        parts: Parts = {
            "url.search": state.query,
            "shown.data": state.query,
            "trouble.children": "",
            "store.value": state.store,
        }
        for key in SWEPT:
            parts[f"{key}.value"] = getattr(state, key)
        for kind in KINDS:
            parts[f"of-{kind}.hidden"] = kind != point.run.video.kind
        for key in CONTROLS:
            parts[f"{key}-error.children"] = ""
        before = TabState.of_query(shown) if shown else None
        if before is None or before.point != state.point or before.pins != state.pins:
            parts |= self._results(state, point, there)
        return parts

    def _results(self, state: TabState, point: SimulatedPoint, there: str | None) -> Parts:
        """Results of a state: figures, tables, texts and the command.

        Args:
            state: The state.
            point: Its simulated design.
            there: Name of the first graph, if it is there already.
        """
        run = point.run
        pinned_runs: dict[str, StoredRun] = {}
        for query in state.pins:
            pinned = TabState.of_query(query)
            pinned_runs[f"pinned: {pinned.title}"] = self._point(pinned).run
        policies = shown_policies({"": run})
        changes: list[TileChange] = []
        for name, pinned_run in pinned_runs.items():
            policies.append(Shown(name, pinned_run.own, pinned_run))
            changes = tile_changes(run, pinned_run)  # those from the last pin are shown
        limits: list[Section] = [
            ("What limits each phase", [limits_table(run), limits_note(run)]),
            ("What is full", [fit_table(run), *held(run)]),
        ]
        parts: Parts = {
            "title.children": _title(point),
            "tiles.children": view.tiles_of(tiles(run), changes),
            "misfit.children": "" if run.fits else view.alert(_misfits(point)),
            "limits.children": view.sections(limits),
            "answer.children": _answer(run),
            "command.children": self.command_of(state),
            "pinned.hidden": not state.pins,
        }
        parts |= view.drawn("breakdown", breakdown_plot(policies), there)
        parts |= view.drawn("roofline", roofline_plot(policies), there)
        return parts


# -------------------------------------------------------------------- private


def _texts(state: TabState, point: SimulatedPoint, shown: Mapping[str, Any]) -> Parts:
    """Texts, menus and sliders of the fields of a design.

    Args:
        state: The state.
        point: Its simulated design.
        shown: Texts that controls show, by field. A field that shows its text is left out: the page
            takes 0.3 ms for a property, even one that keeps its value.
    """
    parts: Parts = {}
    for key, field in FIELDS.items():
        text = field.text(state, point.design)
        if shown.get(key) == text:
            continue
        parts[f"{key}.value"] = text
        if field.is_menu:
            parts[f"{key}.options"] = _options(field.options, text)
        elif field.choices:
            parts[f"{key}-slider.value"] = _nearest(field.options, text)
    return parts


def _title(point: SimulatedPoint) -> str:
    """Design, board and policy."""
    return f"{point.run.design} on {point.design.board.name}: {point.run.own.policy}"


def _misfits(point: SimulatedPoint) -> list[str]:
    """Sentences on a design that does not fit: that it is so, by how much, and cures."""
    sentences = [f"MISFIT: {point.run.design} does not fit {point.design.board.name}."]
    sentences += point.run.misfits
    sentences += [f"Cure: {cure}." for cure in point.report.fit.cures]
    return sentences


def _answer(run: StoredRun) -> list[Any]:
    """Paragraphs of the first screen and of the warnings, and the notes, folded."""
    paragraphs = []
    for fact in facts(run):
        label = fact.label[0].upper() + fact.label[1:]
        paragraphs.append(html.P(unbroken(f"{label}: {fact.text}.")))
    paragraphs += [html.P(unbroken(warning)) for warning in run.warnings]
    notes = [html.P(unbroken(note)) for note in run.notes]
    if notes:
        paragraphs.append(html.Details([html.Summary("Notes on the model"), *notes]))
    return paragraphs


def _refused(key: str, text: str, error: InputError) -> Parts:
    """A refusal below its control, which keeps what was asked for."""
    refusal = str(error.named())
    if key not in CONTROLS:
        return {"trouble.children": view.alert([refusal])}
    # The text stands below its control, which names the parameter.
    parts: Parts = {f"{key}-error.children": refusal.removeprefix(f"{key}: ")}
    if key in FIELDS:
        parts[f"{key}.value"] = text
    return parts


def _after(state: TabState, before: SimulatedPoint, key: str, text: str) -> TabState:
    """The state after a control was used.

    Args:
        state: The state before.
        before: Its simulated design.
        key: The control.
        text: Its text.
    """
    if key in FIELDS:
        return FIELDS[key].set(state, before.design, text)
    if key == "set" and text:
        path, _, value = text.partition("=")
        return state.with_change(path.strip(), value.strip())
    if key in ("store", *PLACES, *SWEPT):
        return state.with_option(key, text)
    if key == "pin":
        pins = dict.fromkeys((*state.pins, state.point.query))  # each design once
        return replace(state, pins=tuple(pins))
    if key == "unpin":
        return replace(state, pins=())
    return state


def _chosen(text: str, count: int) -> int | None:
    """A number that an address gives, at most the last of so many; None if it gives none."""
    return min(int(text), count - 1) if text.isdecimal() else None


def _nearest(options: list[str], text: str) -> int:
    """The stop of a slider that is nearest to a value.

    >>> _nearest(["100", "200", "300"], "287.8"), _nearest(["captured", "0.5"], "captured")
    (2, 0)
    """
    if text in options:
        return options.index(text)
    value = number_or(text, 0.0)

    def distance(stop: int) -> float:
        """Distance of a stop from the value; texts that are no numbers count as 0."""
        return abs(number_or(options[stop], 0.0) - value)

    return min(range(len(options)), key=distance)


def _options(options: list[str], text: str) -> list[dict[str, str]]:
    """The entries of a menu, the present one among them."""
    values = options if text in options else [text, *options]
    return [{"label": value or NONE, "value": value} for value in values]
