"""The guard before loading: llama.cpp's plan of a pair against the memory that is free now.

Three answers, by ``demands``:

- *It cannot fit.* On a GPU, or any device with memory of its own, the plan's bytes exceed what is
  free there. On the host the bytes that are not mapped exceed what the kernel can still give: what
  is free within all cgroup limits, page cache included; swap is too slow to count. That is refused,
  with what would fit. The plan is exact, so no margin belongs here: llama-server runs a pair that
  leaves one byte.
- *It would thrash.* It can be loaded, but mapped weights have no room in the page cache beside the
  rest. Each token of a dense model then reads from disk all that has no room. So does a mixture of
  experts, a part at a time: each token is routed to other experts, at random as far as the page
  cache is concerned. Loading takes explicit consent.
- *It fits.*

What cannot be planned, such as an architecture that this llama.cpp does not know, is not refused:
the load itself reports what is wrong. Free memory is read after the models that make room are
freed, so what stays loaded counts as taken. A draft beside a loaded target is judged as a pair, in
the memory that would be free without the target.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from spectui.closing import Closing
from spectui.engine.demand import FreeMemory, demands, free_memory, least_left
from spectui.engine.planning import Planner, fitted
from spectui.errors import DoesNotFitError, ReadsFromDiskError, SpectuiError
from spectui.llama.buffers import HOST, Buffer, DeviceMemory, bytes_by_memory, mapped_bytes
from spectui.llama.devices import gpu_memories, has_gpu, use_rpc
from spectui.llama.planned import Plan, PlanRequest
from spectui.models.facts import ModelFacts, facts_of
from spectui.models.gguf import FileIdentity, read_gguf
from spectui.options.setup import ModelOptions

ReadFree = Callable[[tuple[DeviceMemory, ...]], FreeMemory]
"""Such as ``free_memory``."""

_SEVERAL = 2
_MOST_HEADS = 128
"""Attention heads of the largest models."""
_MOST_WIDE = 1 << 18
"""Numbers per token between two layers, at most."""
_SPARE = 2
"""Planning is skipped where free RAM is this many times the upper bound from headers."""
_ADVICE = (
    "choose a shorter -c or a smaller quantization, keep more of it in RAM with -ngl or "
    "--n-cpu-moe, or close other programs (spectui doctor shows what fits)"
)


class Guard(Closing):
    """Checks before a load whether there is room, and caches plans. Not thread-safe."""

    def __init__(
        self, free: ReadFree | None = None, *, is_here: bool = True, from_disk: bool = False
    ) -> None:
        """Plan nothing yet.

        Args:
            free: reads free memory; None for ``free_memory``.
            is_here: whether this process loads. If not, no GPU driver is started in it, and the
                planning child reports free memory: the driver's memory for the child stands for
                that for the loading process.
            from_disk: whether weights may always be read from disk again and again.
        """
        self._free = free
        self._from_disk = from_disk
        self._is_here = is_here
        self._planner: Planner | None = None
        self._plans: dict[tuple[PlanRequest, tuple[FileIdentity, ...]], Plan | None] = {}

    def place(self, request: PlanRequest) -> tuple[PlanRequest, str | None]:
        """Choose a placement that is open, as ``--fit`` does; return what was chosen in words.

        The process that plans stays until ``check``, ``free`` or ``close``.

        Raises:
            SpectuiError: as ``Planner.plan`` does.
        """
        options = request.target.fit
        if options is None or not options.is_open:
            return request, None
        found = fitted(self._opened(request.target.devices.rpc), request, options)
        if found is None:
            return replace(request, target=replace(request.target, fit=None)), None
        return found.on(request), found.sentence

    def check(
        self, request: PlanRequest, *, gone: Collection[Buffer] = (), from_disk: bool = False
    ) -> str | None:
        """Refuse what cannot fit, and what would thrash unless that is wanted.

        Args:
            request: what is to be loaded.
            gone: buffers of the target, where it is loaded already and only the draft is to come:
                the pair counts as a whole, and these buffers count as free.
            from_disk: whether its weights may be read from disk again and again.

        Returns:
            A warning, where weights are read from disk and that is allowed; else None.

        Raises:
            DoesNotFitError: it cannot be loaded; says what would fit.
            ReadsFromDiskError: it would thrash.
        """
        with self:
            if self._is_obvious(request):
                return None
            # An RPC server takes one client at a time: the process that has loaded the target.
            is_taken = bool(gone and request.target.devices.rpc)
            plan = None if is_taken else self._planned(request)
            if plan is None:
                return None
            free = self.free(request.target, (one for one in gone if not one.is_mapped))
        shortages, slow = _objections(plan, free)
        if shortages or (slow and not (from_disk or self._from_disk)):
            names = " with ".join(path.name for path in request.paths)
            sentence = f"{names}: {'; '.join(shortages or slow)}; {_ADVICE}"
            raise (DoesNotFitError if shortages else ReadsFromDiskError)(sentence)
        return "; ".join(slow) or None

    def fit_together(self, *requests: PlanRequest) -> bool | None:
        """Whether servers with these models run side by side, and GPUs keep their margin.

        A file that several of them map is in the page cache once.

        Args:
            requests: a server each.

        Returns:
            None where one of them cannot be planned.

        Raises:
            DoesNotFitError: one of them does not even fit alone.
        """
        if self._is_obvious(*requests):
            return True
        with self:
            plans = [plan for one in requests if (plan := self._planned(one)) is not None]
            if len(plans) < len(requests):
                return None
            free = self.free(requests[0].target)
        largest = max(plans, key=lambda plan: mapped_bytes(plan.buffers))
        own = [one for plan in plans for one in plan.buffers if not one.is_mapped]
        mapped = [one for one in largest.buffers if one.is_mapped]
        together = replace(largest.target, buffers=(*own, *mapped))
        whole = Plan(target=together, draft=None, incompatibility=None)
        return least_left(demands(whole, free)) >= 0

    def judge(self, request: PlanRequest, free: FreeMemory) -> tuple[str | None, str | None]:
        """Return why a pair cannot be used, and why it would thrash; None where it is not so.

        The process that plans stays for the next pair, until ``check``, ``free`` or ``close``.
        """
        if self._is_obvious(request, free=free):
            return None, None
        try:
            plan = self._planned(request)
        except DoesNotFitError as error:
            return str(error), None
        if plan is None:
            return None, None
        if plan.incompatibility is not None:
            return plan.incompatibility, None
        shortages, slow = _objections(plan, free)
        return next(iter(shortages), None), next(iter(slow), None)

    def free(self, target: ModelOptions, gone: Iterable[Buffer] = ()) -> FreeMemory:
        """Read free memory, without the planning process's share.

        Args:
            target: what is to be loaded, with the RPC servers whose devices there are, and the
                margins that it leaves on devices.
            gone: buffers of this process that will be free by then; mapped ones are already.
        """
        rpc = target.devices.rpc
        if self._is_here:
            self.close()
            # The load itself reports a server that cannot be used.
            with suppress(SpectuiError):
                use_rpc(rpc)
            gpus = gpu_memories()
        else:
            gpus = self._opened(rpc).gpus()
            self.close()
        free = _with_gone((self._free or free_memory)(gpus), gone)
        return free.with_margins(target.fit, target.devices, gpus)

    def close(self) -> None:
        """End the process that plans."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _opened(self, rpc: tuple[str, ...]) -> Planner:
        if self._planner is not None and self._planner.rpc != rpc:
            self.close()
        if self._planner is None:
            self._planner = Planner(rpc=rpc)
        return self._planner

    def _planned(self, request: PlanRequest) -> Plan | None:
        """The plan; None where none can be made.

        Raises:
            DoesNotFitError: not even what a plan allocates could be had.
        """
        try:
            key = request, tuple(map(FileIdentity.of, request.paths))
        except OSError:
            return None
        plan = self._plans.get(key)
        if key not in self._plans:
            planner = self._opened(request.target.devices.rpc)
            try:
                plan = planner.plan(self.place(request)[0])
            except DoesNotFitError:
                raise
            except SpectuiError:
                # The load itself reports what is wrong.
                pass
            if plan is None or len(planner.gpus()) < _SEVERAL:
                self._plans[key] = plan
            # Among several GPUs layers are split by what is free at that moment.
        return plan

    def _is_obvious(self, *requests: PlanRequest, free: FreeMemory | None = None) -> bool:
        """Whether headers alone show that there is room, which saves a second of planning.

        Only where RAM alone is used, and as much again is left.
        """
        if has_gpu() or any(one.target.devices.rpc for one in requests):
            return False
        try:
            needed = sum(one.n_slots * _most_bytes(one) for one in requests)
        except (SpectuiError, OSError):
            return False
        host = (free or (self._free or free_memory)(())).by_memory.get(HOST)
        return host is not None and _SPARE * needed <= host


def _objections(plan: Plan, free: FreeMemory) -> tuple[list[str], list[str]]:
    """Sentences on memories that have no room for a plan, and on those that would thrash."""
    found = demands(plan, free)
    return (
        [text for one in found if (text := one.shortage)],
        [text for one in found if (text := one.slowness)],
    )


def _with_gone(free: FreeMemory, gone: Iterable[Buffer]) -> FreeMemory:
    """Free memory once buffers are gone."""
    returned = bytes_by_memory(gone)
    returned[HOST] += sum(returned[gpu] for gpu in free.in_ram)
    by_memory = {name: n_bytes + returned[name] for name, n_bytes in free.by_memory.items()}
    return replace(free, by_memory=by_memory)


def _most_bytes(request: PlanRequest) -> int:
    """Upper bound of what a pair takes in RAM, by its headers.

    Raises:
        SpectuiError: a header cannot be read.
    """
    facts = [facts_of(path, read_gguf(path)) for path in request.paths]
    n_contexts = 1 + request.mtp
    return sum(n_contexts * _most_bytes_of(one, request) for one in facts)


def _most_bytes_of(facts: ModelFacts, request: PlanRequest) -> int:
    context, size = request.context, facts.file_bytes
    # A layer has more weights than numbers in its cache of a token.
    per_token = facts.kv_bytes_per_token
    caches = 2 * context.ctx_size * (size if per_token is None else per_token)
    # So does one with a state, of which snapshots are kept.
    states = 8 * size * (request.max_draft + 1) if per_token is None else 0
    n_batch = max(context.ubatch_size, request.max_draft + 1)
    n_wide = min(size, _MOST_WIDE) + 2 * facts.n_vocab + _MOST_HEADS * context.ctx_size
    # Weights may be mapped, and a copy of them repacked.
    return 2 * size + caches + states + 4 * n_batch * n_wide
