#include "compiler/fusion/chain.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::fusion {

bool Chain::isIntermediate(int tensor) const {
  bool written = false;
  for (const Member& member : members) {
    if (written && std::ranges::count(member.inputs, tensor) > 0) return true;
    written |= member.output == tensor;
  }
  return false;
}

bool Chain::accesses(int tensor, int loop) const {
  return std::ranges::any_of(tensors[tensor].subscripts, [&](const Subscript& subscript) {
    return std::ranges::any_of(subscript, [&](const Term& term) { return term.loop == loop; });
  });
}

int Chain::loopNamed(const std::string& name) const {
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i].name == name) return static_cast<int>(i);
  return -1;
}

absl::Status validate(const Chain& chain) {
  auto fault = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("chain '", chain.name, "': ", what...));
  };
  if (chain.members.empty()) return fault("has no members");
  for (const Loop& loop : chain.loops) {
    if (loop.extent < 1) return fault("loop '", loop.name, "' has extent ", loop.extent, ", at least 1 is accepted");
    if (loop.min_tile < 1) return fault("loop '", loop.name, "' has the smallest block ", loop.min_tile);
  }
  const int loops = static_cast<int>(chain.loops.size()), tensors = static_cast<int>(chain.tensors.size());
  for (const Tensor& tensor : chain.tensors) {
    if (tensor.element_bytes < 1) return fault("tensor '", tensor.name, "' has elements of no size");
    for (const Subscript& subscript : tensor.subscripts)
      for (const Term& term : subscript)
        if (term.loop < 0 || term.loop >= loops || term.stride < 1)
          return fault("tensor '", tensor.name, "' has a subscript with loop ", term.loop, ", stride ", term.stride);
  }
  for (const Member& member : chain.members) {
    auto known = [&](int tensor) { return tensor >= 0 && tensor < tensors; };
    if (!known(member.output) || !std::ranges::all_of(member.inputs, known))
      return fault("member '", member.name, "' names a tensor out of 0..", tensors - 1);
    for (int loop : member.loops)
      if (loop < 0 || loop >= loops) return fault("member '", member.name, "' names a loop out of 0..", loops - 1);
    std::vector<int> operands = member.inputs;
    operands.push_back(member.output);
    for (int tensor : operands)
      for (int loop = 0; loop < loops; ++loop)
        if (chain.accesses(tensor, loop) && std::ranges::count(member.loops, loop) == 0)
          return fault("member '", member.name, "' accesses '", chain.tensors[tensor].name, "' by the loop '",
                       chain.loops[loop].name, "', which is not among its own");
  }
  return absl::OkStatus();
}

int64_t footprint(const Chain& chain, int tensor, const std::vector<int64_t>& tiles) {
  int64_t elements = 1;
  for (const Subscript& subscript : chain.tensors[tensor].subscripts) {
    int64_t size = 1;
    for (const Term& term : subscript) size += term.stride * (tiles[term.loop] - 1);
    elements *= size;
  }
  return elements;
}

bool areDigits(const Chain& chain, Subscript subscript) {
  std::ranges::sort(subscript, {}, &Term::stride);
  int64_t step = 1;
  for (const Term& term : subscript) {
    if (term.stride != step) return false;
    step *= chain.loops[term.loop].extent;
  }
  return true;
}

/// Covers everything that a price depends on: extents, bounds, subscripts, work. Names are left out.
std::string structuralKey(const Chain& chain) {
  std::string content;
  for (const Loop& loop : chain.loops)
    absl::StrAppend(&content, ";", loop.extent, loop.whole ? "w" : "", ":", loop.min_tile, "*", loop.multiple, "~",
                    loop.fewest);
  for (const Tensor& tensor : chain.tensors) {
    absl::StrAppend(&content, "|", tensor.element_bytes);
    for (const Subscript& subscript : tensor.subscripts) {
      absl::StrAppend(&content, ",");
      for (const Term& term : subscript) absl::StrAppend(&content, "+", term.stride, "*", term.loop);
    }
  }
  for (const Member& member : chain.members) {
    absl::StrAppend(&content, "#", member.output, "@", member.flops);
    for (int input : member.inputs) absl::StrAppend(&content, ",", input);
    for (int loop : member.loops) absl::StrAppend(&content, "/", loop);
  }
  return content;
}

std::vector<Chain> unfused(const Chain& chain) {
  std::vector<Chain> parts;
  for (const Member& member : chain.members) {
    Chain part{chain.name + "/" + member.name, {}, {}, {}};
    std::map<int, int> loop_of;
    Member alone = member;
    std::vector<int> operands = member.inputs;
    operands.push_back(member.output);
    // Adds a loop to the member's own chain and returns its position.
    auto own = [&](Loop loop) {
      part.loops.push_back(std::move(loop));
      return static_cast<int>(part.loops.size()) - 1;
    };
    // An output dimension of several terms (a window of the consumer) becomes one loop over its points.
    std::map<std::vector<std::pair<int, int64_t>>, int> merged;
    auto key = [](const Subscript& subscript) {
      // Digits of a merged dimension stay separate loops.
      std::vector<std::pair<int, int64_t>> terms;
      for (const Term& term : subscript) terms.emplace_back(term.loop, term.stride);
      return terms;
    };
    for (const Subscript& subscript : chain.tensors[member.output].subscripts) {
      if (areDigits(chain, subscript)) continue;
      Loop loop{"", 1};
      for (const Term& term : subscript) {
        loop.name += (loop.name.empty() ? "" : "+") + chain.loops[term.loop].name;
        loop.extent += term.stride * (chain.loops[term.loop].extent - 1);
      }
      merged[key(subscript)] = own(loop);
    }
    // Any other loop of the chain is copied on first use.
    auto single = [&](int loop) {
      auto [at, fresh] = loop_of.try_emplace(loop, 0);
      if (fresh) at->second = own(chain.loops[loop]);
      return at->second;
    };
    for (size_t t = 0; t < operands.size(); ++t) {
      Tensor tensor = chain.tensors[operands[t]];
      for (Subscript& subscript : tensor.subscripts) {
        // h * s + r * s + p contains (h + r) times s, which is replaced if h + r is a merged output dimension.
        Subscript rest = subscript;
        // Finds the merged output dimensions in the subscript, with their common factor.
        for (const auto& [terms, loop] : merged) {
          int64_t factor = 0;
          bool holds = true;
          for (const auto& [l, stride] : terms) {
            auto at = std::ranges::find(rest, l, &Term::loop);
            holds = holds && at != rest.end() && at->stride % stride == 0;
            if (!holds) break;
            const int64_t quotient = at->stride / stride;
            holds = factor == 0 || factor == quotient;
            factor = quotient;
          }
          if (!holds) continue;
          for (const auto& [l, stride] : terms)
            std::erase_if(rest, [&, l = l](const Term& term) { return term.loop == l; });
          // Negative for now, because `single` renumbers the remaining loops.
          rest.push_back({-1 - loop, factor});
        }
        for (Term& term : rest) term.loop = term.loop < 0 ? -1 - term.loop : single(term.loop);
        subscript = rest;
      }
      part.tensors.push_back(std::move(tensor));
      if (t < member.inputs.size()) {
        alone.inputs[t] = static_cast<int>(t);
      } else {
        alone.output = static_cast<int>(t);
      }
    }
    alone.loops.clear();
    for (size_t l = 0; l < part.loops.size(); ++l) alone.loops.push_back(static_cast<int>(l));
    part.members.push_back(std::move(alone));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace tessera::compiler::fusion
