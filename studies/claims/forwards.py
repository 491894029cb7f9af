"""Tests of claims in their own setting: video diffusion transformers.

Operations are counted exactly (:mod:`carsim.validate.preset_counts`), times are simulated, and
Amdahl's law is applied to what a paper prints. Published figures are in
``carsim/validate/data/diffusion_published.csv`` with their sources.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from carsim import override, run
from carsim.account.row import RowResult
from carsim.cost.capacity import cache_bytes, capacity
from carsim.design import Design, load_design
from carsim.design.load import for_work
from carsim.program.sample import forward_macs, macs_of_all_forwards
from carsim.validate.peers import published
from carsim.validate.preset_counts import preset_model, sample_macs
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of
from studies.claims.tables import Finding
from studies.table import percent

CLOSE = 0.01
"""Largest relative error of a count that counts as the published one."""

PFLOP = 0.5e15
"""Multiply-accumulates in it."""

DENSE_STEPS = 0.25
"""Share of the steps that DraftAttention leaves dense."""


def share_of(whole: float, part: float) -> float:
    """Share of the time that a part takes, by Amdahl, from how much faster both become.

    >>> round(share_of(1.6, 4.0), 3)
    0.5
    """
    return (1 - 1 / whole) / (1 - 1 / part)


# --------------------------------------------------------------------------- counts


def counts(rows: Mapping[str, Sequence[str]]) -> Finding:
    """Operations of a sample are the published ones.

    Args:
        rows: Published figure -> its paper, the preset, and its sample.
    """
    texts = []
    errors = []
    for what, (paper, preset, sample) in rows.items():
        stated = published(paper, what)
        counted = sample_macs(preset_model(preset, sample)) / PFLOP
        errors.append(abs(counted / stated - 1))
        texts.append(f"{what} {counted:.1f} of {stated:g} PFLOP")
    return Finding("; ".join(texts), max(errors) < CLOSE)


def attention_share(presets: Sequence[str], designs: Sequence[str], least: float) -> Finding:
    """Self-attention takes a share of all operations, and of the time of each machine.

    Args:
        presets: The networks.
        designs: The machines.
        least: The share.
    """
    texts = []
    shares = []
    for preset in presets:
        macs = forward_macs(preset_model(preset))
        of_operations = macs["attention"] / sum(macs.values())
        shares.append(of_operations)
        text = f"{preset} {percent(of_operations)} of the operations"
        for name in designs:
            seconds = simulated(f"diffusion:{preset}", name).seconds_by_phase
            of_time = seconds["attention"] / sum(seconds.values())
            shares.append(of_time)
            text += f", {percent(of_time)} of the time on {name}"
        texts.append(text)
    return Finding("; ".join(texts), min(shares) >= least)


def cross_share(frames: int, most: float) -> Finding:
    """Cross-attention's products with text are a small share of the operations of a chunk.

    Args:
        frames: Latent frames in the window, and in the whole unbounded cache.
        most: Share that the claim needs at least.
    """
    model = preset_model("self_forcing_1.3b")
    body = model.body
    network = model.network
    sample = model.sample
    assert network is not None
    assert sample is not None
    assert sample.chunk_frames is not None
    tokens = sample.chunk_frames * network.tokens_per_frame(sample)  # type: ignore[union-attr]
    scores = 2 * tokens * 512 * body.hidden_size * body.n_layers
    projections = 2 * tokens * body.hidden_size**2 * body.n_layers
    of_chunk = forward_macs(model)
    linear = sum(macs for name, macs in of_chunk.items() if name != "attention")
    keys = frames * network.tokens_per_frame(sample)  # type: ignore[union-attr]
    attention = 2 * tokens * keys * body.hidden_size * body.n_layers
    window = of_chunk["attention"]
    parts = {
        "in the window": scores / (linear + window),
        f"unbounded at {frames} latent frames": scores / (linear + attention),
        "with its projections in the window": (scores + projections) / (linear + window),
    }
    text = ", ".join(f"{name} {percent(share, 2)}" for name, share in parts.items())
    return Finding(f"share of operations {text}", max(parts.values()) >= most)


def implied_sparsity() -> Finding:
    """The work that DraftAttention states for a sparsity is that of the sparsity."""
    model = preset_model("hunyuanvideo_13b", "height=768")
    macs = forward_macs(model)
    sample = model.sample
    assert sample is not None
    forwards = sample.forwards * sample.passes
    attention = forwards * macs["attention"] / PFLOP
    linear = sample_macs(model) / PFLOP - attention
    texts = []
    errors = []
    for stated in (0.6, 0.8, 0.9):
        work = published("DraftAttention", f"HunyuanVideo {percent(stated, 0)}")
        left = (work - linear) / attention - DENSE_STEPS
        implied = 1 - left / (1 - DENSE_STEPS)
        errors.append(abs(implied - stated))
        texts.append(f"{percent(stated, 0)} stated, {percent(implied, 0)} implied")
    return Finding("; ".join(texts), max(errors) < 0.02)


# --------------------------------------------------------------------------- Amdahl


def shares_add_up() -> Finding:
    """Shares of the time that the speed-ups of table 1 need add up to at most 1."""
    of_self = []
    for method in ("TempCache-LSH", "AnnSA-LSH"):
        whole = published("FAST-AR", method)
        of_self.append(share_of(whole, published("FAST-AR", f"{method} component")))
    whole = published("FAST-AR", "AnnCA-LSH")
    of_cross = share_of(whole, published("FAST-AR", "AnnCA-LSH component"))
    texts = [f"self-attention {share:.2f}" for share in of_self]
    total = max(of_self) + of_cross
    texts.append(f"cross-attention {of_cross:.2f}, sum {total:.2f}")
    return Finding(", ".join(texts), total <= 1)


def all_three() -> Finding:
    """The three methods of table 1 together are as fast as the table says, by Amdahl at best."""
    parts = {
        method: published("FAST-AR", f"{method} component")
        for method in ("TempCache-LSH", "AnnSA-LSH", "AnnCA-LSH")
    }
    whole = published("FAST-AR", "TempCache-LSH")
    of_self = share_of(whole, parts["TempCache-LSH"])
    # The best case: both methods of self-attention in series, and all else is cross-attention.
    left = of_self / (parts["TempCache-LSH"] * parts["AnnSA-LSH"])
    left += (1 - of_self) / parts["AnnCA-LSH"]
    stated = published("FAST-AR", "all three")
    text = f"at most {1 / left:.1f} x from the single figures, {stated:g} x stated"
    return Finding(text, 1 / left >= stated)


def density_limits_speed() -> Finding:
    """Self-attention with AnnSA is no faster than its density allows."""
    density = published("FAST-AR", "AnnSA-LSH density")
    stated = published("FAST-AR", "AnnSA-LSH component")
    text = f"{stated:g} x stated, {1 / density:.1f} x at a density of {percent(density)}"
    return Finding(text, stated <= 1 / density)


def ratios_of_times() -> Finding:
    """Speed-ups of table 3 are ratios of its times."""
    texts = []
    errors = []
    for model in ("MAGI-1", "SkyReels-V2"):
        dense = published("FAST-AR", f"{model} dense")
        ratio = dense / published("FAST-AR", f"{model} TempCache")
        stated = published("FAST-AR", f"{model} speed-up")
        errors.append(abs(ratio / stated - 1))
        texts.append(f"{model} {ratio:.2f} from the times, {stated:g} stated")
    return Finding("; ".join(texts), max(errors) < 0.05)


def sparse_rate() -> Finding:
    """AnnSA's kernel loses nothing on sparse attention: its rate is that of dense attention."""
    rates = {}
    for method in ("dense", "AnnSA"):
        work = published("FAST-AR", f"Wan2.1 14B {method}")
        rates[method] = 1000 * work / published("FAST-AR", f"Wan2.1 14B {method} time")
    text = ", ".join(f"{method} {rate:.0f} TFLOP/s" for method, rate in rates.items())
    return Finding(text, rates["AnnSA"] >= rates["dense"])


# --------------------------------------------------------------------------- simulated


@cache
def design_of(work: str, name: str) -> Design:
    """A design that makes the sample of a workload."""
    return for_work(load_design(name), workload_of(work))


@cache
def simulated(work: str, name: str, keep: float | None = None) -> RowResult:
    """The own policy of a design on a workload.

    Args:
        work: The workload.
        name: The design.
        keep: Share of the blocks that draft attention keeps; None: all scores are computed.
    """
    design = design_of(work, name)
    if keep is not None:
        policy = {"kind": "draft", "block_tokens": 128, "keep": keep}
        design = override(design, {"policy.attention": policy})
    return run(design, workload=work, allow_misfit=True, what_if=False).chosen


def draft_speed(designs: Sequence[str], sparsity: float) -> Finding:
    """Draft attention on HunyuanVideo is as fast as stated, and no faster than Amdahl allows.

    Args:
        designs: The machines.
        sparsity: Share of the blocks that is left out.
    """
    work = "diffusion:hunyuanvideo_13b,768x1280"
    stated = published("DraftAttention", f"HunyuanVideo {percent(sparsity, 0)} speed-up")
    macs = forward_macs(preset_model("hunyuanvideo_13b", "height=768"))
    share = macs["attention"] / sum(macs.values())
    most = 1 / (1 - share * (1 - DENSE_STEPS) * sparsity)
    gains = []
    texts = []
    for name in designs:
        dense = simulated(work, name).latency_s
        gain = dense / simulated(work, name, keep=round(1 - sparsity, 9)).latency_s
        gains.append(gain)
        texts.append(f"{name} {gain:.2f} x")
    text = f"{', '.join(texts)}; {stated:g} x stated, {most:.2f} x at most by operations"
    return Finding(text, min(gains) >= stated and stated <= most)


def draft_cost(designs: Sequence[str], most: float) -> Finding:
    """The draft and the order cost little, beyond the share of the scores that is kept.

    Args:
        designs: The machines.
        most: Share of the time of dense attention that draft and order may take.
    """
    keep = 0.5
    scored = DENSE_STEPS + (1 - DENSE_STEPS) * keep
    work = "diffusion:hunyuanvideo_13b,768x1280"
    texts = []
    shares = []
    for name in designs:
        dense = simulated(work, name).seconds_by_phase["attention"]
        drafted = simulated(work, name, keep=keep).seconds_by_phase["attention"]
        shares.append(drafted / dense - scored)
        texts.append(f"{name} {percent(shares[-1], 2)}")
    return Finding(f"of the time of dense attention: {', '.join(texts)}", max(shares) <= most)


def growth(designs: Sequence[str], window: int | None, figure: str, least: float) -> Finding:
    """Time or memory of chunks 41 to 80 of a rollout, over that of chunks 21 to 40.

    Args:
        designs: The machines.
        window: Latent frames whose keys are read and kept; None: all of them.
        figure: ``seconds`` of a chunk, or ``GB`` of keys and values.
        least: Ratio above which it grows.
    """
    frames = 4096 if window is None else window
    ratios = []
    texts = []
    for name in designs:
        works = [f"chunks:self_forcing_1.3b,chunks={n},window={frames}" for n in (20, 40, 80)]
        if figure == "seconds":
            first, second, third = (simulated(work, name).latency_s for work in works)
            ratios.append((third - second) / (second - first) / 2)
        else:
            _, second, third = (kv_bytes(work, name) for work in works)
            ratios.append(third / second)
        texts.append(f"{name} {ratios[-1]:.2f}")
    what = "seconds a chunk" if figure == "seconds" else "GB"
    return Finding(f"{what} up to chunk 80 over chunk 40: {', '.join(texts)}", min(ratios) > least)


def kv_bytes(work: str, name: str) -> int:
    """Bytes of keys and values that a design holds at most."""
    design = design_of(work, name)
    sample = design.model.sample
    assert sample is not None
    uses = capacity(design, Video(sample.forwards, 1, 0), None, None)
    return sum(each.nbytes for use in uses for each in use.contents if "KV" in each.content)


# --------------------------------------------------------------------------- rollouts


ROLLOUT = "chunks:self_forcing_1.3b,chunks=250"
"""A rollout of 3,000 frames, as FAST-AR measures it."""

OF_METHODS: Mapping[str, dict[str, object]] = {
    "TempCache": {"kind": "temp_cache", "density": 0.168, "search": "full", "match": "lsh"},
    "AnnSA": {"kind": "ann", "density": 0.276},
    "AnnCA": {"kind": "ann_ca", "density": 0.331},
}
"""The methods of FAST-AR at the densities of its table 1."""


@cache
def rollout(name: str, fields: str, methods: tuple[str, ...] = ()) -> RowResult:
    """A rollout of 3,000 frames on a design.

    Args:
        name: The design.
        fields: Further fields of the workload.
        methods: Methods of FAST-AR, in order; none: dense attention.
    """
    work = f"{ROLLOUT},{fields}"
    design = design_of(work, name)
    if methods:
        policies = [OF_METHODS[method] for method in methods]
        policy = policies[0] if len(policies) == 1 else {"kind": "stack", "policies": policies}
        design = override(design, {"policy.attention": policy})
    return run(design, workload=work, allow_misfit=True, what_if=False).chosen


def rollout_speed(designs: Sequence[str], methods: Sequence[str], phase: str | None) -> Finding:
    """Methods make a dense rollout over an unbounded cache as fast as stated, end to end.

    Args:
        designs: The machines.
        methods: The methods, in order.
        phase: Phase that they shorten, whose stated speed-up is compared, too; None: none is.
    """
    stated = published("FAST-AR", "all three")
    stated_of_phase = 0.0
    if phase is not None:
        (method,) = methods
        stated = published("FAST-AR", f"{method}-LSH")
        stated_of_phase = published("FAST-AR", f"{method}-LSH component")
    texts = []
    holds = []
    for name in designs:
        dense = rollout(name, "window=all")
        own = rollout(name, "window=all", tuple(methods))
        gain = dense.latency_s / own.latency_s
        holds.append(gain >= stated)
        text = f"{name} {gain:.2f} x"
        if phase is not None:
            of_phase = dense.seconds_by_phase[phase] / own.seconds_by_phase[phase]
            holds.append(of_phase >= stated_of_phase)
            text += f", its attention {of_phase:.2f} x"
        texts.append(text)
    text = f"{'; '.join(texts)}; stated {stated:g} x"
    if phase is not None:
        text += f" and {stated_of_phase:g} x"
    return Finding(text, all(holds))


def over_released_window(designs: Sequence[str]) -> Finding:
    """TempCache makes a rollout faster than one with the window of the released model.

    Args:
        designs: The machines.
    """
    texts = []
    gains = []
    for name in designs:
        merged = rollout(name, "window=all", ("TempCache",)).latency_s
        window = rollout(name, "window=21").latency_s / merged
        rolling = rollout(name, "window=21,steps=5,rolling=5").latency_s / merged
        within = rollout(name, "window=21").latency_s
        within /= rollout(name, "window=21", ("TempCache",)).latency_s
        gains.append(min(window, rolling))
        texts.append(
            f"{name} {window:.2f} x of a window of 21 latent frames, {rolling:.2f} x of the same "
            f"with rolling noise levels, {within:.2f} x where the window itself is merged"
        )
    return Finding("; ".join(texts), min(gains) >= published("FAST-AR", "TempCache-LSH"))


def unbounded_fits(frames: int, gigabytes: float) -> Finding:
    """Keys and values of a whole rollout fit into a memory in 16 bits.

    Args:
        frames: Latent frames of the rollout.
        gigabytes: The memory.
    """
    design = design_of(f"{ROLLOUT},window=all", "asic_7nm_hbm3")
    design = override(design, {"model.kv.bits": 16})
    used = cache_bytes(design, frames) / 1e9
    of_frame = (cache_bytes(design, 2) - cache_bytes(design, 1)) / 1e9
    held = gigabytes // of_frame
    text = f"{used:.0f} GB at {frames} latent frames; {gigabytes:g} GB hold {held:.0f} of them"
    return Finding(f"{text}, without weights", used <= gigabytes)


def schedule_limit(dense_steps: float, sparse_blocks: float) -> Finding:
    """AnnSA's stated speed-up is possible where some steps and blocks stay dense.

    Args:
        dense_steps: Share of the denoising steps that stay dense.
        sparse_blocks: Share of the layers in which attention is sparse.
    """
    model = preset_model("self_forcing_1.3b", "chunks=250 window_frames=null")
    macs = macs_of_all_forwards(model)
    share = macs["attention"] / sum(macs.values())
    density = published("FAST-AR", "AnnSA-LSH density")
    stated = published("FAST-AR", "AnnSA-LSH")
    left_out = (1 - dense_steps) * sparse_blocks * share * (1 - density)
    most = 1 / (1 - left_out)
    text = f"at most {most:.2f} x, where attention takes {percent(share)} of the operations"
    return Finding(f"{text}; {stated:g} x stated", most >= stated)
