#include "compiler/ptx/result_writer.h"

#include <map>

#include "proto/element_size.h"

namespace tessera::compiler::ptx {

ResultWriter::Place ResultWriter::resultAt(const std::string& index, int64_t further, int64_t extent,
                                           const std::vector<Part>& parts) {
  const std::string at = plus(index, further);
  Place place{addressed("", at, parts), fresh("p")};
  line("setp.lt.s32 ", place.within, ", ", at, ", ", extent, ";");
  return place;
}

Registers ResultWriter::elementsOf(const std::string& sum) {
  const v1::DataType type = plan_.result_type;
  if (plan_.result.in_register == 2) {
    const Registers halves = {fresh("h"), fresh("h")};
    line("mov.b32 {", halves[0], ", ", halves[1], "}, ", sum, ";");
    return halves;
  }
  if (plan_.result.type == "f32" && type != v1::DATA_TYPE_F32) {
    const std::string half = fresh("h");
    line("cvt.rn.", type == v1::DATA_TYPE_F16 ? "f16" : "bf16", ".f32 ", half, ", ", sum, ";");
    return {half};
  }
  return {sum};
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

void ResultWriter::drain(const std::string& to) {
  const int along = plan_.result_along;
  const int64_t bytes = elementBytes(plan_.drainedType()), pitch = plan_.resultPitch();
  const auto placeOf = [&](int64_t x, int64_t y) {
    return absl::StrCat("[", to, "+", (along == 0 ? y : x) * pitch + (along == 0 ? x : y) * bytes, "]");
  };
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
                           const std::string& address) {
  const auto vectorOf = [](size_t count) { return count == 1 ? std::string() : absl::StrCat("v", count, "."); };
  const auto listOf = [](const Registers& some) {
    return some.size() == 1 ? some[0] : absl::StrCat("{", absl::StrJoin(some, ", "), "}");
  };
  const int64_t bytes = elementBytes(plan_.result_type) * plan_.result_copy;
  const char* const type = bytes == 2 ? "b16" : "b32";
  Registers words;
  if (plan_.drainedType() == plan_.result_type) {
    for (int64_t w = 0; w < std::max<int64_t>(1, bytes / 4); ++w) words.push_back(fresh(bytes == 2 ? "h" : "r"));
    line("@", within, " ld.shared.", vectorOf(words.size()), type, " ", listOf(words), ", [", from, "+", further, "];");
  } else {
    // Rounded here: opaque sums are in the level as they were summed.
    constexpr int64_t kAtOnce = 4;  // of four bytes
    for (int64_t e = 0; e < plan_.result_copy; e += kAtOnce) {
      Registers sums;
      for (int64_t i = e; i < std::min(plan_.result_copy, e + kAtOnce); ++i) sums.push_back(fresh("f"));
      line("@", within, " ld.shared.", vectorOf(sums.size()), "f32 ", listOf(sums), ", [", from, "+", further + e * 4,
           "];");
      for (const std::string& sum : sums) words.push_back(elementsOf(sum)[0]);
    }
    for (size_t w = 0; w + 1 < words.size(); ++w) {
      const std::string pair = fresh("r");
      line("mov.b32 ", pair, ", {", words[w], ", ", words[w + 1], "};");
      words[w] = pair;
      words.erase(words.begin() + static_cast<int64_t>(w) + 1);
    }
  }
  line("@", within, " st.global.", vectorOf(words.size()), type, " [", address, "], ", listOf(words), ";");
}

void ResultWriter::storeRows() {
  const int64_t bytes = elementBytes(plan_.result_type), held = elementBytes(plan_.drainedType()),
                pitch = plan_.resultPitch(), copy = plan_.result_copy;
  const int along = plan_.result_along;
  const int64_t tiles[2] = {plan_.tileX(), plan_.tileY()};
  const std::string own[2] = {ownResult(0), ownResult(1)};
  const std::string row = made("mul.lo.s32", own[1 - along], pitch), column = made("mul.lo.s32", own[along], held);
  const std::string to = made("add.s32", shared_, made("add.s32", row, column));
  line("bar.sync 0;");  // nobody reads sources there any more
  drain(to);
  line("bar.sync 0;");
  const int64_t in_row = tiles[along] / copy, rows = plan_.threads() / in_row;
  const std::string first = made("shr.u32", thread_, log2of(in_row));
  const std::string part = made("shl.b32", made("and.b32", thread_, in_row - 1), log2of(copy));
  const std::string from =
      made("add.s32", shared_, made("add.s32", made("mul.lo.s32", first, pitch), made("mul.lo.s32", part, held)));
  const auto partsOf = [&](int dimension) -> const std::vector<Part>& {
    return dimension == 0 ? plan_.to.first : plan_.to.second;
  };
  const auto extentOf = [&](int dimension) { return plan_.extentOf(dimension == 0 ? plan_.x : plan_.y); };
  const std::string constant = resultsBegin();
  Place columns = resultAt(made("add.s32", first_[along], part), 0, extentOf(along), partsOf(along));
  if (rows > tiles[1 - along]) {  // more threads than parts of rows
    const std::string works = fresh("p");
    line("setp.lt.s32 ", works, ", ", first, ", ", tiles[1 - along], ";");
    line("and.pred ", columns.within, ", ", columns.within, ", ", works, ";");
  }
  const std::string begin = made("add.s32", first_[1 - along], first);
  for (int64_t n = 0; n * rows < tiles[1 - along]; ++n) {
    const Place place = resultAt(begin, n * rows, extentOf(1 - along), partsOf(1 - along));
    const std::string within = fresh("p"), address = fresh("w");
    line("and.pred ", within, ", ", place.within, ", ", columns.within, ";");
    std::string element = constant;
    for (const std::string& more : {place.element, columns.element}) {
      if (!more.empty()) element = made("add.s32", element, more);
    }
    line("mad.wide.s32 ", address, ", ", element, ", ", bytes, ", ", tensors_[0], ";");
    copyOut(within, from, n * rows * pitch, address);
  }
}

void ResultWriter::storeEach() {
  std::string own[2];
  for (size_t s = 0; s < 2; ++s) own[s] = made("add.s32", ownResult(s), first_[s]);
  const std::string constant = resultsBegin();
  std::map<int64_t, Place> rows, columns;
  const int64_t vector = plan_.result_vector;
  forEachResult(vector, [&](int64_t x, int64_t y, const std::string& values) {
    if (!rows.contains(x)) rows[x] = resultAt(own[0], x, plan_.extentOf(plan_.x), plan_.to.first);
    if (!columns.contains(y)) columns[y] = resultAt(own[1], y, plan_.extentOf(plan_.y), plan_.to.second);
    const std::string within = fresh("p"), to = fresh("w");
    line("and.pred ", within, ", ", rows[x].within, ", ", columns[y].within, ";");
    std::string element = constant;
    for (const std::string& part : {rows[x].element, columns[y].element}) {
      if (!part.empty()) element = made("add.s32", element, part);
    }
    line("mad.wide.s32 ", to, ", ", element, ", ", elementBytes(plan_.result_type), ", ", tensors_[0], ";");
    line("@", within, " st.global.", vector == 2 ? "v2." : "", resultType(), " [", to, "], ", values, ";");
  });
}

void ResultWriter::store() { plan_.storesRows() ? storeRows() : storeEach(); }

}  // namespace tessera::compiler::ptx
