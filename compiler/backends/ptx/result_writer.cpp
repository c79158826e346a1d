#include "compiler/backends/ptx/result_writer.h"

#include <map>

#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::ptx {

ResultWriter::Place ResultWriter::resultAt(int dimension, const std::string& index, int64_t further) {
  const auto partsOf = [&](const Addresses& addresses) -> const std::vector<Part>& {
    return dimension == 0 ? addresses.first : addresses.second;
  };
  const std::string at = plus(index, further);
  Place place{addressed("", at, partsOf(plan_.to)), fresh("p"), {}};
  line("setp.lt.s32 ", place.within, ", ", at, ", ", plan_.extentOf(dimension == 0 ? plan_.x : plan_.y), ";");
  for (const Finish& step : plan_.epilogue) place.added.push_back(addressed("", at, partsOf(step.at)));
  return place;
}

// Places are cached: a thread's results share few rows and columns.
const ResultWriter::Place& ResultWriter::ownPlace(int dimension, int64_t further) {
  std::map<int64_t, Place>& places = places_[dimension];
  const auto found = places.find(further);
  return found != places.end() ? found->second
                               : places.emplace(further, resultAt(dimension, own_[dimension], further)).first->second;
}

// A register may hold two halves. The epilogue computes in f32, so they are widened if there is one.
Registers ResultWriter::elementsOf(const std::string& sum) {
  if (plan_.result.in_register != 2) return {sum};
  Registers halves = {fresh("h"), fresh("h")};
  line("mov.b32 {", halves[0], ", ", halves[1], "}, ", sum, ";");
  if (plan_.epilogue.empty()) return halves;
  return {widened(halves[0]), widened(halves[1])};
}

std::string ResultWriter::widened(const std::string& half) {
  const std::string to = fresh("f");
  line("cvt.f32.f16 ", to, ", ", half, ";");
  return to;
}

std::string ResultWriter::rounded(const std::string& element) {
  if (!element.starts_with("%f") || elementBytes(plan_.result_type) != 2) return element;
  const std::string half = fresh("h");
  line("cvt.rn.", plan_.result_type == v1::DATA_TYPE_F16 ? "f16" : "bf16", ".f32 ", half, ", ", element, ";");
  return half;
}

void ResultWriter::prepareEpilogue() {
  size_t number = 3;
  for (const Finish& step : plan_.epilogue) {
    Added& added = added_tensors_.emplace_back();
    if (!step.added) continue;
    added.tensor = fresh("w");
    line("ld.param.u64 ", added.tensor, ", [", name_, "_", number++, "];");
    line("cvta.to.global.u64 ", added.tensor, ", ", added.tensor, ";");
    added.begin = addressed("", kept_, step.at.kept);
    if (added.begin.empty()) added.begin = zero();
  }
}

std::string ResultWriter::finished(std::string element, const Place& x, const Place& y) {
  const v1::DataType sum = plan_.instruction.accesses[0].dtype;
  const bool whole = !isFloatingPoint(sum), twice = sum == v1::DATA_TYPE_F64;
  const char *const type = whole ? "s32" : twice ? "f64" : "f32", *const prefix = whole ? "r" : twice ? "d" : "f";
  // PTX writes floating-point constants as bits.
  const char* const zero = whole ? "0" : twice ? "0d0000000000000000" : "0f00000000";
  for (size_t s = 0; s < plan_.epilogue.size(); ++s) {
    const std::string to = fresh(prefix);
    if (plan_.epilogue[s].added) {
      line("add.", type, " ", to, ", ", element, ", ", addedAt(s, x, y), ";");
    } else {  // keeps a NaN, which max would drop
      const std::string below = fresh("p");
      line("setp.lt.", type, " ", below, ", ", element, ", ", zero, ";");
      line("selp.", whole ? "b32" : type, " ", to, ", ", zero, ", ", element, ", ", below, ";");
    }
    element = to;
  }
  return element;
}

std::string ResultWriter::addedAt(size_t step, const Place& x, const Place& y) {
  constexpr size_t kMaxFetched = 16;  // that are kept in registers
  const auto key = std::pair(step, std::pair(x.added[step], y.added[step]));
  if (const auto found = fetched_.find(key); found != fetched_.end()) return found->second;
  // Forgets all values at once: the next rows need others.
  if (fetched_.size() >= kMaxFetched) fetched_.clear();
  std::string element = added_tensors_[step].begin, within;
  for (const auto& [part, there] : {std::pair(key.second.first, x.within), std::pair(key.second.second, y.within)}) {
    if (part.empty()) continue;
    element = made("add.s32", element, part);
    if (within.empty()) {
      within = there;
    } else {
      const std::string both = fresh("p");
      line("and.pred ", both, ", ", within, ", ", there, ";");
      within = both;
    }
  }
  const std::string from = fresh("w"), guard = within.empty() ? "" : absl::StrCat("@", within, " ");
  line("mad.wide.s32 ", from, ", ", element, ", ", elementBytes(plan_.result_type), ", ", added_tensors_[step].tensor,
       ";");
  std::string& value = fetched_[key];
  switch (plan_.result_type) {
    case v1::DATA_TYPE_F16: {
      const std::string half = fresh("h");
      line(guard, "ld.global.b16 ", half, ", [", from, "];");
      return value = widened(half);
    }
    case v1::DATA_TYPE_BF16: {  // the upper half of an f32
      const std::string half = fresh("r");
      line(guard, "ld.global.u16 ", half, ", [", from, "];");
      value = fresh("f");
      line("mov.b32 ", value, ", ", made("shl.b32", half, 16), ";");
      return value;
    }
    default:
      value = fresh(plan_.result_type == v1::DATA_TYPE_F64 ? "d" : plan_.result_type == v1::DATA_TYPE_F32 ? "f" : "r");
      line(guard, "ld.global.", resultType(), " ", value, ", [", from, "];");
      return value;
  }
}

std::string ResultWriter::ownResult(size_t s) {
  const std::string own = byThread(lane_, s == 0 ? plan_.result.first : plan_.result.second);
  const int64_t size = plan_.sources[s].blocks * plan_.sizeOf(s == 0 ? plan_.x : plan_.y);
  return made("add.s32", own, made("mul.lo.s32", group_[s], size));
}
std::string ResultWriter::resultsBegin() {
  std::string constant = fresh("r");
  line("mov.b32 ", constant, ", ", plan_.to.constant, ";");
  return addressed(constant, kept_, plan_.to.kept);
}
std::string ResultWriter::resultType() const {
  const int64_t bytes = elementBytes(plan_.result_type);
  return bytes == 2 ? "b16" : bytes == 8 ? "f64" : plan_.result.type == "f32" ? "f32" : "b32";
}

void ResultWriter::addressOf(const std::string& to, const std::string& begin, const Place& one, const Place& other) {
  std::string element = begin;
  for (const std::string& part : {one.element, other.element}) {
    if (!part.empty()) element = made("add.s32", element, part);
  }
  line("mad.wide.s32 ", to, ", ", element, ", ", elementBytes(plan_.result_type), ", ", tensors_[0], ";");
}

void ResultWriter::drain(const std::string& to) {
  const int along = plan_.result_along;
  const int64_t bytes = elementBytes(plan_.drainedType()), pitch = plan_.resultPitch();
  const auto placeOf = [&](int64_t x, int64_t y) {
    return absl::StrCat("[", to, "+", (along == 0 ? y : x) * pitch + (along == 0 ? x : y) * bytes, "]");
  };
  // Known fragments: each thread stores its elements. Opaque fragments: the instruction's own store, one block at a
  // time.
  if (!plan_.drain) {
    const int64_t vector = along == 1 ? plan_.result_vector : 1;
    forEachResult(vector, [&](int64_t x, int64_t y, const std::string& values) {
      line("st.shared.", vector == 2 ? "v2." : "", resultType(), " ", placeOf(x, y), ", ", values, ";");
    });
    return;
  }
  for (int x = 0; x < plan_.sources[0].blocks; ++x) {
    for (int y = 0; y < plan_.sources[1].blocks; ++y) {
      const auto begin = sums_.begin() + (x * plan_.sources[1].blocks + y) * plan_.result.registers;
      line(plan_.drain->assembly(), " ", placeOf(x * plan_.sizeOf(plan_.x), y * plan_.sizeOf(plan_.y)), ", {",
           absl::StrJoin(begin, begin + plan_.result.registers, ", "), "}, ", pitch / bytes, ";");
    }
  }
}

void ResultWriter::copyOut(const std::string& within, const std::string& from, int64_t further,
                           const std::string& address, const Place& row, const std::vector<Place>& columns) {
  const auto vectorOf = [](size_t count) { return count == 1 ? std::string() : absl::StrCat("v", count, "."); };
  const auto listOf = [](const Registers& some) {
    return some.size() == 1 ? some[0] : absl::StrCat("{", absl::StrJoin(some, ", "), "}");
  };
  // Loads `bytes` from shared memory in pieces of at most 16 bytes, the widest access.
  const auto fetch = [&](int64_t bytes, const char* type, const char* prefix, Registers& all) {
    constexpr int64_t kMaxBytes = 16;
    const int64_t each = std::min<int64_t>(bytes, 4);
    for (int64_t begin = 0; begin < bytes; begin += kMaxBytes) {
      Registers some;
      for (int64_t at = begin; at < std::min(bytes, begin + kMaxBytes); at += each) some.push_back(fresh(prefix));
      line("@", within, " ld.shared.", vectorOf(some.size()), type, " ", listOf(some), ", [", from, "+",
           further + begin, "];");
      all.insert(all.end(), some.begin(), some.end());
    }
  };
  const int64_t copy = plan_.result_copy, bytes = elementBytes(plan_.result_type) * copy,
                held = elementBytes(plan_.drainedType()) * copy;
  Registers words;
  const char* type = bytes == 2 ? "b16" : "b32";
  // Nothing to compute: copies words without interpreting them.
  if (plan_.drainedType() == plan_.result_type && (plan_.epilogue.empty() || !plan_.drain)) {
    fetch(bytes, type, bytes == 2 ? "h" : "r", words);
  } else {
    Registers elements;
    if (plan_.drainedType() == v1::DATA_TYPE_F16) {
      Registers raw;
      fetch(held, held == 2 ? "b16" : "b32", held == 2 ? "h" : "r", raw);
      for (const std::string& word : raw) {
        Registers halves = {word};
        if (held > 2) {
          halves = {fresh("h"), fresh("h")};
          line("mov.b32 {", halves[0], ", ", halves[1], "}, ", word, ";");
        }
        for (const std::string& half : halves) elements.push_back(widened(half));
      }
    } else {
      fetch(held, "f32", "f", elements);
    }
    for (size_t e = 0; e < elements.size(); ++e) {
      const Place &x = plan_.result_along == 0 ? columns[e] : row, &y = plan_.result_along == 0 ? row : columns[e];
      if (!plan_.epilogue.empty()) elements[e] = finished(elements[e], x, y);
      elements[e] = rounded(elements[e]);
    }
    if (elementBytes(plan_.result_type) == 2 && copy > 1) {
      for (size_t e = 0; e < elements.size(); e += 2) {
        words.push_back(fresh("r"));
        line("mov.b32 ", words.back(), ", {", elements[e], ", ", elements[e + 1], "};");
      }
    } else {
      words = elements;
      if (bytes > 2) type = "f32";
    }
  }
  line("@", within, " st.global.", vectorOf(words.size()), type, " [", address, "], ", listOf(words), ";");
}

void ResultWriter::storeRows() {
  const int64_t held = elementBytes(plan_.drainedType()), pitch = plan_.resultPitch(), copy = plan_.result_copy;
  const int along = plan_.result_along;
  const int64_t tiles[2] = {plan_.tileX(), plan_.tileY()};
  const std::string own[2] = {ownResult(0), ownResult(1)};
  const std::string row = made("mul.lo.s32", own[1 - along], pitch), column = made("mul.lo.s32", own[along], held);
  const std::string to = made("add.s32", shared_, made("add.s32", row, column));
  line("bar.sync 0;");  // no thread reads sources there any more
  drain(to);
  line("bar.sync 0;");
  // Threads are assigned along rows again, so that consecutive threads store consecutive bytes.
  const int64_t in_row = tiles[along] / copy, rows = plan_.threads() / in_row;
  const std::string first = made("shr.u32", thread_, log2of(in_row));
  const std::string part = made("shl.b32", made("and.b32", thread_, in_row - 1), log2of(copy));
  const std::string from =
      made("add.s32", shared_, made("add.s32", made("mul.lo.s32", first, pitch), made("mul.lo.s32", part, held)));
  const std::string constant = resultsBegin(), first_column = made("add.s32", first_[along], part);
  std::vector<Place> all_columns;
  for (int64_t e = 0; e < (plan_.drain && !plan_.epilogue.empty() ? copy : 1); ++e)
    all_columns.push_back(resultAt(along, first_column, e));
  Place& columns = all_columns[0];
  if (rows > tiles[1 - along]) {  // more threads than parts of rows
    const std::string works = fresh("p");
    line("setp.lt.s32 ", works, ", ", first, ", ", tiles[1 - along], ";");
    line("and.pred ", columns.within, ", ", columns.within, ", ", works, ";");
  }
  const std::string begin = made("add.s32", first_[1 - along], first);
  for (int64_t n = 0; n * rows < tiles[1 - along]; ++n) {
    const Place place = resultAt(1 - along, begin, n * rows);
    const std::string within = fresh("p"), address = fresh("w");
    line("and.pred ", within, ", ", place.within, ", ", columns.within, ";");
    addressOf(address, constant, place, columns);
    copyOut(within, from, n * rows * pitch, address, place, all_columns);
  }
}

void ResultWriter::storeEach() {
  const std::string constant = resultsBegin();
  const int64_t vector = plan_.result_vector;
  forEachResult(vector, [&](int64_t x, int64_t y, const std::string& values) {
    const Place &row = ownPlace(0, x), &column = ownPlace(1, y);
    const std::string within = fresh("p"), to = fresh("w");
    line("and.pred ", within, ", ", row.within, ", ", column.within, ";");
    addressOf(to, constant, row, column);
    line("@", within, " st.global.", vector == 2 ? "v2." : "", resultType(), " [", to, "], ", values, ";");
  });
}

void ResultWriter::store() {
  prepareEpilogue();
  for (size_t s = 0; s < 2; ++s) own_[s] = made("add.s32", ownResult(s), first_[s]);
  plan_.storesRows() ? storeRows() : storeEach();
}

}  // namespace tessera::compiler::ptx
