#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/runtime/module_image.h"

namespace tessera::compiler {
namespace {

constexpr int32_t kMaxCount = 1 << 20;
constexpr size_t kMaxStringBytes = 1 << 16;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

class Checker {
 public:
  Checker(const tessera_module* module, std::span<const ImageSegment> segments) : m_(module), segments_(segments) {}

  RuntimeStatus run(const Requirements& requirements, uint64_t weights_bytes) {
    // The version comes first and can be read in any version of the ABI.
    if (!readable(m_, sizeof(uint32_t), alignof(tessera_module))) return fail("module", 0, "lies outside the code");
    if (m_->abi_version != TESSERA_MODULE_ABI) {
      return runtimeError(TESSERA_INCOMPATIBLE,
                          "the artifact's code has module ABI %u, this runtime has %d; compile the model again",
                          m_->abi_version, TESSERA_MODULE_ABI);
    }
    if (!readable(m_, sizeof(tessera_module), alignof(tessera_module))) {
      return fail("module", 0, "lies outside the code");
    }
    several_ = m_->num_variants > 1;
    if (!string(m_->compiler_version) || !string(m_->triple) || !string(m_->features)) {
      return fail("module", 0, "has a name outside the code");
    }
    if (requirements.triple != m_->triple || joined(requirements) != m_->features) {
      return fail("module", 0, "is for another target than target.txt says");
    }
    if (!bytes(m_->workspace_bytes) || !bytes(m_->scratch_bytes) || !bytes(m_->weights_bytes)) {
      return fail("module", 0, "asks for an impossible amount of memory");
    }
    if (static_cast<uint64_t>(m_->weights_bytes) != weights_bytes) {
      return runtimeError(TESSERA_CORRUPT, "the artifact has %llu bytes of weights, its code expects %lld",
                          static_cast<unsigned long long>(weights_bytes), static_cast<long long>(m_->weights_bytes));
    }
    if (m_->num_variants < 1 || m_->num_variants > TESSERA_MAX_VARIANTS || !array(m_->variants, m_->num_variants) ||
        !array(m_->fixed_inputs, m_->num_fixed_inputs)) {
      return fail("module", 0, "has a table outside the code");
    }
    if (RuntimeStatus status = checkPreparation(requirements, weights_bytes); !status.ok()) return status;
    for (int i = 0; i < m_->num_variants; ++i) {
      variant_ = i;
      if (RuntimeStatus status = checkVariant(m_->variants[i]); !status.ok()) return status;
      if (const char* what = agrees(m_->variants[i])) return fail("variant", i, what);
    }
    for (int i = 0; i < m_->num_fixed_inputs; ++i) {
      if (const char* what = fixedInput(i)) return fail("fixed input", i, what);
    }
    return {};
  }

 private:
  /// Runs before the check of the variants, whose buffers refer to the preparation's outputs.
  RuntimeStatus checkPreparation(const Requirements& requirements, uint64_t weights_bytes) {
    if (!m_->preparation) return {};
    // Bounds the recursion: a preparation has no preparation.
    if (prepares_) return fail("module", 0, "prepares weights in order to prepare weights");
    Checker inner(m_->preparation, segments_);
    inner.prepares_ = true;
    if (RuntimeStatus status = inner.run(requirements, weights_bytes); !status.ok()) return status;
    const tessera_module& preparation = *m_->preparation;
    if (preparation.num_inputs != 0 || preparation.num_variants != 1 || preparation.variants->num_extents != 0 ||
        preparation.variants->num_dimensions != 0 || preparation.variants->num_fault_messages != 0) {
      return fail("module", 0, "prepares weights that depend on a run");
    }
    int64_t bytes_of_all = 0;
    for (int32_t i = 0; i < preparation.num_outputs; ++i) {
      bytes_of_all += preparation.variants->outputs[i].size_bytes + TESSERA_BUFFER_ALIGNMENT;
      if (!bytes(bytes_of_all)) return fail("module", 0, "asks for an impossible amount of memory");
    }
    return {};
  }

  RuntimeStatus checkVariant(const tessera_module_variant& v) {
    if (!bytes(v.arena_bytes)) return fail("module", 0, "asks for an impossible amount of memory");
    if (!array(v.dimensions, v.num_dimensions) || !array(v.inputs, m_->num_inputs) ||
        !array(v.outputs, m_->num_outputs) || !array(v.buffers, v.num_buffers) || !array(v.steps, v.num_steps) ||
        !array(v.extents, v.num_extents) || !array(v.refused_sizes, v.num_refused_sizes) ||
        !array(v.allocations, v.num_allocations) || !array(v.loops, v.num_loops) ||
        !array(v.fault_messages, v.num_fault_messages) || !array(v.states, v.num_states)) {
      return fail("module", 0, "has a table outside the code");
    }
    int ranges = 0;
    for (int i = 0; i < v.num_dimensions; ++i) {
      if (!string(v.dimensions[i].name)) return fail("dimension", i, "has its name outside the code");
      ranges += v.dimensions[i].size < 0 ? 1 : 0;
    }
    // The last inputs hold the count of each range.
    for (int i = 0, input = m_->num_inputs - ranges; i < v.num_dimensions; ++i) {
      if (v.dimensions[i].size >= 0) continue;
      const tessera_module_tensor* count = input < 0 ? nullptr : &v.inputs[input];
      ++input;
      if (v.dimensions[i].size < -kMaxBytes) return fail("dimension", i, "has an impossible size");
      if (!count || tensor(v, *count) || count->dtype != TESSERA_I64 || count->rank != 0 ||
          std::strcmp(count->name, v.dimensions[i].name) != 0) {
        return fail("dimension", i, "is a range, and no input gives its size");
      }
    }
    for (int i = 0; i < m_->num_inputs; ++i) {
      if (const char* what = tensor(v, v.inputs[i])) return fail("input", i, what);
    }
    for (int i = 0; i < m_->num_outputs; ++i) {
      if (const char* what = tensor(v, v.outputs[i])) return fail("output", i, what);
    }
    for (int i = 0; i < v.num_allocations; ++i) {
      if (const char* what = allocation(v, v.allocations[i])) return fail("place", i, what);
    }
    for (int i = 0; i < v.num_buffers; ++i) {
      if (const char* what = buffer(v, v.buffers[i])) return fail("buffer", i, what);
    }
    for (int i = 0; i < v.num_steps; ++i) {
      if (const char* what = step(v, v.steps[i])) return fail("step", i, what);
    }
    if (RuntimeStatus status = loops(v); !status.ok()) return status;
    for (int i = 0; i < v.num_extents; ++i) {
      if (const char* what = extent(v, i)) return fail("extent", i, what);
    }
    for (int i = 0; i < v.num_refused_sizes; ++i) {
      const tessera_module_refused_sizes& sizes = v.refused_sizes[i];
      if (!isRange(v, sizes.dimension)) return fail("refused size", i, "names no range");
      if (sizes.first < 0 || sizes.first > sizes.last || sizes.last > -v.dimensions[sizes.dimension].size) {
        return fail("refused size", i, "is not within its range");
      }
      if (sizes.multiple < 0) return fail("refused size", i, "has an impossible multiple");
      if (!string(sizes.reason)) return fail("refused size", i, "has its reason outside the code");
    }
    for (int i = 0; i < v.num_states; ++i) {
      if (const char* what = state(v, i)) return fail("state", i, what);
    }
    return faults(v);
  }

  const char* state(const tessera_module_variant& v, int index) const {
    const tessera_module_state& s = v.states[index];
    if (s.input < 0 || s.input >= m_->num_inputs || s.output < 0 || s.output >= m_->num_outputs)
      return "refers to no such tensor";
    for (int i = 0; i < index; ++i)
      if (v.states[i].input == s.input || v.states[i].output == s.output) return "has a tensor of another state";
    const tessera_module_tensor &in = v.inputs[s.input], &out = v.outputs[s.output];
    if (in.dtype != out.dtype || in.rank != out.rank) return "has tensors of different types";
    if (s.growing_dim < -1 || s.growing_dim >= in.rank) return "grows along no dimension";
    if (s.growing_dim >= 0 && (!in.ranges || in.ranges[s.growing_dim] < 0)) return "grows along no range";
    for (int32_t d = 0; d < in.rank; ++d) {
      const bool equal = d == s.growing_dim ? in.shape[d] <= out.shape[d] : in.shape[d] == out.shape[d];
      if (!equal) return "has tensors of different shapes";
    }
    if (s.growing_dim >= 0 && extentOf(v, s) == nullptr) return "grows by an unknown number of rows";
    if (s.rows_step == -1) return s.num_identity_steps == 0 ? nullptr : "skips steps without an appending step";
    return append(v, s);
  }

  static const tessera_module_extent* extentOf(const tessera_module_variant& v, const tessera_module_state& s) {
    const auto* const end = v.extents + v.num_extents;
    const auto* const found = std::find_if(v.extents, end, [&](const tessera_module_extent& e) {
      return e.output == s.output && e.dimension == s.growing_dim;
    });
    return found == end ? nullptr : found;
  }

  /// Checks the steps that a run with a state replaces.
  const char* append(const tessera_module_variant& v, const tessera_module_state& s) const {
    const auto isStep = [&](int32_t step) { return step >= 0 && step < v.num_steps; };
    if (s.growing_dim < 0 || !isStep(s.rows_step) || !isStep(s.concat_step) || s.rows_step >= s.concat_step ||
        v.num_loops > 0 || !array(s.identity_steps, s.num_identity_steps))
      return "appends in no such step";
    const auto resultOf = [&](int32_t step) -> const tessera_module_buffer* {
      const tessera_module_step& of = v.steps[step];
      return of.num_results == 1 ? &v.buffers[of.operands[of.num_operands - 1]] : nullptr;
    };
    const tessera_module_buffer *rows = resultOf(s.rows_step), *whole = resultOf(s.concat_step);
    if (!rows || rows->kind != TESSERA_BUFFER_ARENA || !whole || whole->kind != TESSERA_BUFFER_OUTPUT ||
        whole->index != s.output)
      return "appends to no output";
    const tessera_module_tensor &in = v.inputs[s.input], &out = v.outputs[s.output];
    const int64_t capacity = out.shape[s.growing_dim], added = capacity - in.shape[s.growing_dim];
    if (added < 1 || rows->size_bytes != out.size_bytes / capacity * added) return "appends rows of another size";
    for (int32_t i = 0; i < s.num_identity_steps; ++i) {
      const int32_t step = s.identity_steps[i];
      if (!isStep(step) || step <= s.concat_step) return "skips no such step";
      const tessera_module_buffer* result = resultOf(step);
      if (!result || result->kind != TESSERA_BUFFER_ARENA || v.num_allocations == 0 ||
          result->size_bytes != out.size_bytes || result->offset != v.allocations[result->index].offset)
        return "skips a step whose result is no copy of the output";
      for (int32_t other = 0; other < v.num_steps; ++other) {
        if (other != step && writes(v, v.steps[other], result->index)) return "shares memory that another step writes";
      }
    }
    return nullptr;
  }

  /// Whether a step writes in an allocation of the arena.
  static bool writes(const tessera_module_variant& v, const tessera_module_step& s, int32_t allocation) {
    for (int32_t i = s.num_operands - s.num_results; i < s.num_operands; ++i) {
      const tessera_module_buffer& b = v.buffers[s.operands[i]];
      if (b.kind == TESSERA_BUFFER_ARENA && b.index == allocation) return true;
    }
    return false;
  }

  RuntimeStatus faults(const tessera_module_variant& v) const {
    if (v.num_fault_messages == 0) return {};
    for (int i = 0; i < v.num_fault_messages; ++i) {
      if (!string(v.fault_messages[i])) return fail("fault", i, "has its message outside the code");
    }
    if (v.fault_buffer < 0 || v.fault_buffer >= v.num_buffers ||
        v.buffers[v.fault_buffer].size_bytes != sizeof(int64_t) ||
        v.buffers[v.fault_buffer].kind == TESSERA_BUFFER_LOOP) {
      return fail("fault", 0, "is in no buffer of one i64");
    }
    return {};
  }

  /// Returns the contradiction between a variant and the earlier ones, which have been checked; null if there is none.
  const char* agrees(const tessera_module_variant& v) const {
    for (const tessera_module_variant* other = m_->variants; other != &v; ++other) {
      for (int i = 0; i < m_->num_inputs; ++i) {
        if (!sameTensor(other->inputs[i], v.inputs[i])) return "has another input than the first";
      }
      for (int i = 0; i < m_->num_outputs; ++i) {
        if (!sameTensor(other->outputs[i], v.outputs[i])) return "has another output than the first";
      }
      if (other->num_states != v.num_states) return "has other states than the first";
      for (int i = 0; i < v.num_states; ++i) {
        if (other->states[i].input != v.states[i].input || other->states[i].output != v.states[i].output ||
            (other->states[i].growing_dim < 0) != (v.states[i].growing_dim < 0))
          return "has other states than the first";
      }
      // Two variants with equal shapes could never both be selected.
      bool distinct = false;
      for (int i = 0; i < m_->num_inputs && !distinct; ++i) distinct = !sameShape(other->inputs[i], v.inputs[i]);
      if (!distinct) return "has the same input shapes as another";
    }
    return nullptr;
  }
  static bool sameTensor(const tessera_module_tensor& a, const tessera_module_tensor& b) {
    return a.dtype == b.dtype && std::strcmp(a.name, b.name) == 0;
  }
  static bool sameShape(const tessera_module_tensor& a, const tessera_module_tensor& b) {
    return std::equal(a.shape, a.shape + a.rank, b.shape, b.shape + b.rank);
  }

  RuntimeStatus fail(const char* table, int index, const char* what) const {
    const std::string variant = several_ ? "variant " + std::to_string(variant_) + ", " : "";
    return runtimeError(TESSERA_CORRUPT, "the artifact's tables are inconsistent: %s%s%s %d %s",
                        prepares_ ? "preparation, " : "", variant.c_str(), table, index, what);
  }
  static std::string joined(const Requirements& requirements) {
    std::string text;
    for (const std::string& feature : requirements.features) text += (text.empty() ? "" : " ") + feature;
    return text;
  }

  const ImageSegment* segmentOf(const void* pointer) const {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    for (const ImageSegment& segment : segments_) {
      if (at >= segment.begin && at < segment.end) return &segment;
    }
    return nullptr;
  }
  bool readable(const void* pointer, size_t size, size_t alignment) const {
    const ImageSegment* segment = segmentOf(pointer);
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    return segment && at % alignment == 0 && size <= segment->end - at;
  }
  template <typename T>
  bool array(const T* pointer, int32_t count) const {
    if (count < 0 || count > kMaxCount) return false;
    return count == 0 ||
           readable(static_cast<const void*>(pointer), sizeof(T) * static_cast<size_t>(count), alignof(T));
  }
  bool string(const char* text) const {
    // The terminator must be in the same segment, within kMaxStringBytes.
    const ImageSegment* segment = segmentOf(text);
    if (!segment) return false;
    const size_t limit = std::min<size_t>(segment->end - reinterpret_cast<uintptr_t>(text), kMaxStringBytes);
    return strnlen(text, limit) < limit;
  }
  static bool bytes(int64_t value) { return value >= 0 && value <= kMaxBytes; }

  static bool isRange(const tessera_module_variant& v, int32_t dimension) {
    return dimension >= 0 && dimension < v.num_dimensions && v.dimensions[dimension].size < 0;
  }

  const char* tensor(const tessera_module_variant& v, const tessera_module_tensor& t) const {
    if (!string(t.name)) return "has its name outside the code";
    const auto element = static_cast<int64_t>(tessera_dtype_size(t.dtype));
    if (element == 0) return "has an unknown element type";
    if (t.rank < 0 || t.rank > kMaxRank || !array(t.shape, t.rank)) return "has its shape outside the code";
    int64_t size = element;
    for (int32_t i = 0; i < t.rank; ++i) {
      if (t.shape[i] < 0 || __builtin_mul_overflow(size, t.shape[i], &size)) return "has an impossible shape";
    }
    if (size != t.size_bytes || !bytes(size)) return "has a size that differs from its shape's";
    if (t.ranges && !array(t.ranges, t.rank)) return "has its ranges outside the code";
    for (int32_t i = 0; t.ranges && i < t.rank; ++i) {
      if (t.ranges[i] == -1) continue;
      if (!isRange(v, t.ranges[i]) || t.shape[i] != -v.dimensions[t.ranges[i]].size) return "follows no range";
    }
    return nullptr;
  }

  static const char* allocation(const tessera_module_variant& v, const tessera_module_allocation& p) {
    if (!bytes(p.size_bytes) || !bytes(p.offset) || p.offset + p.size_bytes > v.arena_bytes) {
      return "reaches beyond the arena";
    }
    if (p.offset % TESSERA_BUFFER_ALIGNMENT != 0) return "has an offset that is no multiple of 64";
    return 0 <= p.first && p.first <= p.last && p.last <= v.num_steps ? nullptr : "is needed by no step";
  }

  const char* buffer(const tessera_module_variant& v, const tessera_module_buffer& b) const {
    if (!bytes(b.size_bytes) || !bytes(b.offset)) return "has an impossible size or offset";
    switch (b.kind) {
      case TESSERA_BUFFER_INPUT:
      case TESSERA_BUFFER_OUTPUT: {
        const bool input = b.kind == TESSERA_BUFFER_INPUT;
        if (b.index < 0 || b.index >= (input ? m_->num_inputs : m_->num_outputs)) return "refers to no such tensor";
        const int64_t size = (input ? v.inputs : v.outputs)[b.index].size_bytes;
        return b.size_bytes == size && b.offset == 0 ? nullptr : "has another size than its tensor";
      }
      case TESSERA_BUFFER_WEIGHT:
      case TESSERA_BUFFER_ARENA: {
        const int64_t limit = b.kind == TESSERA_BUFFER_WEIGHT ? m_->weights_bytes : v.arena_bytes;
        if (b.offset % TESSERA_BUFFER_ALIGNMENT != 0) return "has an offset that is no multiple of 64";
        if (b.offset > limit || b.size_bytes > limit - b.offset) return "reaches beyond its section";
        if (b.kind == TESSERA_BUFFER_WEIGHT || v.num_allocations == 0) return nullptr;
        if (b.index < 0 || b.index >= v.num_allocations) return "refers to no such place";
        const tessera_module_allocation& p = v.allocations[b.index];
        const bool inside = b.offset >= p.offset && b.offset + b.size_bytes <= p.offset + p.size_bytes;
        return inside ? nullptr : "reaches beyond its place";
      }
      case TESSERA_BUFFER_PREPARED: {
        if (!m_->preparation || b.index < 0 || b.index >= m_->preparation->num_outputs)
          return "refers to no such weight";
        const int64_t limit = m_->preparation->variants->outputs[b.index].size_bytes;
        if (b.offset % TESSERA_BUFFER_ALIGNMENT != 0) return "has an offset that is no multiple of 64";
        return b.offset > limit || b.size_bytes > limit - b.offset ? "reaches beyond its weight" : nullptr;
      }
      case TESSERA_BUFFER_LOOP:
        return b.index >= 0 && b.index < v.num_loops && b.offset == 0 ? nullptr : "belongs to no loop";
      default:
        return "has an unknown kind";
    }
  }

  RuntimeStatus loops(const tessera_module_variant& v) const {
    std::vector<int32_t> around;                                         // open loops, innermost last
    std::vector<bool> moved(static_cast<size_t>(v.num_buffers), false);  // LOOP buffers that already have an entry
    for (int32_t i = 0; i < v.num_loops; ++i) {
      const tessera_module_loop& loop = v.loops[i];
      if (loop.first_step < 0 || loop.first_step >= loop.last_step || loop.last_step > v.num_steps)
        return fail("loop", i, "has no steps");
      if (i > 0 && loop.first_step < v.loops[i - 1].first_step) return fail("loop", i, "is out of order");
      // Loops are sorted by first step, so those that ended before this one can be dropped; the rest must enclose it.
      while (!around.empty() && v.loops[around.back()].last_step <= loop.first_step) around.pop_back();
      if (!around.empty() && v.loops[around.back()].last_step < loop.last_step)
        return fail("loop", i, "ends outside of its enclosing loop");
      around.push_back(i);
      if (const char* what = this->loop(v, i, around, moved)) return fail("loop", i, what);
    }
    for (int32_t s = 0; s < v.num_steps; ++s) {
      for (int32_t operand = 0; operand < v.steps[s].num_operands; ++operand) {
        const tessera_module_buffer& b = v.buffers[v.steps[s].operands[operand]];
        if (b.kind != TESSERA_BUFFER_LOOP) continue;
        const bool inside = s >= v.loops[b.index].first_step && s < v.loops[b.index].last_step;
        if (!inside || !moved[static_cast<size_t>(v.steps[s].operands[operand])])
          return fail("step", s, "reads a loop buffer that no enclosing loop sets");
      }
    }
    return {};
  }

  const char* loop(const tessera_module_variant& v, int32_t index, const std::vector<int32_t>& around,
                   std::vector<bool>& moved) const {
    const tessera_module_loop& l = v.loops[index];
    if (!bytes(l.max_iterations)) return "has an impossible number of iterations";
    if (!array(l.carried, l.num_carried) || !array(l.scans, l.num_scans)) return "has a table outside the code";
    // Whether a buffer keeps its address through all iterations: any buffer except the LOOP buffers of this and inner
    // loops.
    const auto stays = [&](int32_t b) {
      if (b < 0 || b >= v.num_buffers) return false;
      const bool outer = std::find(around.begin(), around.end() - 1, v.buffers[b].index) != around.end() - 1;
      return v.buffers[b].kind != TESSERA_BUFFER_LOOP || (outer && moved[static_cast<size_t>(b)]);
    };
    const auto written = [&](int32_t b) {
      return stays(b) && (v.buffers[b].kind == TESSERA_BUFFER_ARENA || v.buffers[b].kind == TESSERA_BUFFER_OUTPUT ||
                          v.buffers[b].kind == TESSERA_BUFFER_LOOP);
    };
    const auto takes = [&](int32_t b) {  // a LOOP buffer of this loop that has no other entry
      if (b < 0 || b >= v.num_buffers || v.buffers[b].kind != TESSERA_BUFFER_LOOP || v.buffers[b].index != index ||
          moved[static_cast<size_t>(b)]) {
        return false;
      }
      moved[static_cast<size_t>(b)] = true;
      return true;
    };
    const auto scalar = [&](int32_t b, int64_t size, bool is_written) {
      return b == -1 || ((is_written ? written(b) : stays(b)) && v.buffers[b].size_bytes == size);
    };
    if (!scalar(l.trip_count, sizeof(int64_t), false) || !scalar(l.initial_condition, 1, false) ||
        !scalar(l.condition, 1, true) || !scalar(l.iteration, sizeof(int64_t), true) ||
        !scalar(l.executed, sizeof(int64_t), true)) {
      return "has a counter or condition that is no scalar buffer";
    }
    for (const tessera_module_carried& c : std::span(l.carried, static_cast<size_t>(l.num_carried))) {
      if (!stays(c.initial) || !written(c.result) || !written(c.spare) || !takes(c.before) || !takes(c.after))
        return "carries no such buffer";
      for (const int32_t b : {c.initial, c.before, c.after, c.spare})
        if (v.buffers[b].size_bytes != v.buffers[c.result].size_bytes) return "carries buffers of different sizes";
    }
    for (const tessera_module_scan& s : std::span(l.scans, static_cast<size_t>(l.num_scans))) {
      if (!(s.written != 0 ? written(s.whole) : stays(s.whole)) || !takes(s.part)) return "scans no such buffer";
      const int64_t part = v.buffers[s.part].size_bytes;
      if (l.max_iterations == 0 || (part > 0 && l.max_iterations > v.buffers[s.whole].size_bytes / part))
        return "scans beyond a buffer";
    }
    return nullptr;
  }

  const char* step(const tessera_module_variant& v, const tessera_module_step& s) const {
    if (!string(s.name) || !string(s.symbol)) return "has its name outside the code";
    if (!array(s.phases, s.num_phases)) return "has its phases outside the code";
    if (!array(s.operands, s.num_operands)) return "has its operands outside the code";
    if (s.flops < 0) return "has a negative operation count";
    if (s.num_results < 0 || s.num_results > s.num_operands) return "has more results than operands";
    if (s.workspace_bytes < 0 || s.workspace_bytes > m_->workspace_bytes || s.scratch_bytes < 0 ||
        s.scratch_bytes > m_->scratch_bytes) {
      return "asks for more memory than the module";
    }
    for (int32_t i = 0; i < s.num_operands; ++i) {
      if (s.operands[i] < 0 || s.operands[i] >= v.num_buffers) return "refers to no such buffer";
    }
    for (int32_t i = 0; i < s.num_phases; ++i) {
      if (s.phases[i].grid < 1) return "has a phase without work";
      const ImageSegment* segment = segmentOf(reinterpret_cast<const void*>(s.phases[i].fn));
      if (!segment || !segment->executable) return "has a phase outside the code";
    }
    if (!array(s.grid_bounds, s.num_grid_bounds)) return "has its grid bounds outside the code";
    for (int32_t i = 0; i < s.num_grid_bounds; ++i) {
      if (const char* what = gridBound(v, s, i)) return what;
    }
    if (!array(s.write_bounds, s.num_write_bounds)) return "has its write bounds outside the code";
    for (int32_t i = 0; i < s.num_write_bounds; ++i) {
      if (const char* what = writeBound(s, i)) return what;
    }
    return nullptr;
  }

  const char* writeBound(const tessera_module_step& s, int32_t index) const {
    const tessera_module_write_bound& r = s.write_bounds[index];
    if (r.operand < s.num_operands - s.num_results || r.operand >= s.num_operands)
      return "has a write bound of no result";
    if (index > 0 && r.operand < s.write_bounds[index - 1].operand) return "has write bounds out of order";
    if (r.num_terms > s.num_grid_bounds || !array(r.terms, r.num_terms)) return "has its write bounds outside the code";
    if (r.base < -kMaxBytes || r.base > kMaxBytes) return "has a write bound out of range";
    for (int32_t i = 0; i < r.num_terms; ++i) {
      const tessera_module_write_bound_term& t = r.terms[i];
      if (t.grid_bound < 0 || t.grid_bound >= s.num_grid_bounds)
        return "has a write bound by a grid bound that it lacks";
      if (t.numerator < 1 || !bytes(t.numerator) || t.denominator < 1 || !bytes(t.denominator) || !bytes(t.bytes) ||
          !bytes(t.most)) {
        return "has a write bound out of range";
      }
    }
    return nullptr;
  }

  const char* gridBound(const tessera_module_variant& v, const tessera_module_step& s, int32_t index) const {
    const tessera_module_grid_bound& c = s.grid_bounds[index];
    if (c.phase < 0 || c.phase >= s.num_phases) return "bounds the grid of a phase that it lacks";
    // The product of the ranges' largest sizes bounds `rows * numerator` in neededSteps().
    int64_t rows = 1;  // at most
    for (int32_t d = 0; d < 32; ++d) {
      if ((c.ranges >> d & 1) == 0) continue;
      if (!isRange(v, d)) return "bounds a grid by no range";
      if (rows > kMaxBytes / -v.dimensions[d].size) return "bounds a grid by ranges that are too long";
      rows *= -v.dimensions[d].size;
    }
    if (c.ranges == 0) return "bounds a grid by no range";
    const int64_t grid = s.phases[c.phase].grid;
    const auto within = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
    if (!within(c.count, 1, grid) || !within(c.inner, 1, grid / c.count) || grid % (c.count * c.inner) != 0 ||
        !within(c.numerator, 1, kMaxBytes / rows) || !within(c.denominator, 1, kMaxBytes) ||
        !within(c.slack, 0, kMaxBytes)) {
      return "bounds a grid where there is no level";
    }
    if (index == 0 || s.grid_bounds[index - 1].phase < c.phase) return nullptr;
    // The grid bounds of a phase are nested, slowest first.
    const bool within_other =
        s.grid_bounds[index - 1].phase == c.phase && s.grid_bounds[index - 1].inner % (c.count * c.inner) == 0;
    return within_other ? nullptr : "has grid bounds out of order";
  }

  const char* fixedInput(int index) const {
    const tessera_module_fixed_input& f = m_->fixed_inputs[index];
    if (f.input < 0 || f.input >= m_->num_inputs) return "refers to no such input";
    if (index > 0 && f.input <= m_->fixed_inputs[index - 1].input) return "is out of order";
    for (int i = 0; i < m_->num_variants; ++i) {
      if (f.size_bytes != m_->variants[i].inputs[f.input].size_bytes) return "has another size than its input";
    }
    const size_t alignment = tessera_dtype_size(m_->variants[0].inputs[f.input].dtype);
    if (f.size_bytes > 0 && !readable(f.data, static_cast<size_t>(f.size_bytes), alignment)) {
      return "has its value outside the code";
    }
    return nullptr;
  }

  const char* extent(const tessera_module_variant& v, int index) const {
    const tessera_module_extent& e = v.extents[index];
    if (e.output < 0 || e.output >= m_->num_outputs) return "refers to no such output";
    if (e.dimension < 0 || e.dimension >= v.outputs[e.output].rank) return "refers to no such dimension";
    if (e.buffer < 0 || e.buffer >= v.num_buffers) return "refers to no such buffer";
    if (v.buffers[e.buffer].size_bytes != sizeof(int64_t)) return "is not in a buffer of one i64";
    if (v.buffers[e.buffer].kind == TESSERA_BUFFER_LOOP) return "is in a buffer of a loop";
    if (index == 0) return nullptr;
    const tessera_module_extent& before = v.extents[index - 1];
    const bool ascends = before.output < e.output || (before.output == e.output && before.dimension < e.dimension);
    return ascends ? nullptr : "is out of order";
  }

  const tessera_module* m_;
  std::span<const ImageSegment> segments_;
  int variant_ = 0;        // index of the variant being checked
  bool several_ = false;   // whether there are several variants
  bool prepares_ = false;  // whether the module is itself a preparation
};

}  // namespace

RuntimeStatus checkModule(const tessera_module* module, std::span<const ImageSegment> segments,
                          const Requirements& requirements, uint64_t weights_bytes) {
  return Checker(module, segments).run(requirements, weights_bytes);
}

}  // namespace tessera::compiler
