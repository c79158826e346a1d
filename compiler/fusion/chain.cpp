#include "compiler/fusion/chain.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::fusion {

absl::Status validateChain(const Chain& chain) {
  if (absl::Status status = loopnest::validate(chain); !status.ok()) return status;
  auto fault = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("chain '", chain.name, "': ", what...));
  };
  if (!chain.bounds.empty()) return fault("has bounds");
  for (size_t a = 0; a < chain.accesses.size(); ++a) {
    const Access& access = chain.accesses[a];
    for (const Subscript& subscript : access.subscripts) {
      if (!subscript.isAffine())
        return fault("tensor '", access.name, "' has a subscript with a quotient or remainder");
      for (const Term& term : subscript.terms)
        if (term.coefficient < 1)
          return fault("tensor '", access.name, "' has a subscript with loop ", term.loop, ", coefficient ",
                       term.coefficient, "; at least 1 is accepted");
    }
    for (size_t other = 0; other < a; ++other)
      if (chain.accesses[other].name == access.name && chain.accesses[other].subscripts != access.subscripts)
        return fault("tensor '", access.name, "' is accessed in two ways; blocks need a single one");
  }
  return absl::OkStatus();
}

int64_t footprint(const Chain& chain, int access, const std::vector<int64_t>& tiles) {
  int64_t elements = 1;
  for (const Subscript& subscript : chain.accesses[access].subscripts) {
    int64_t size = 1;
    for (const Term& term : subscript.terms) size += term.coefficient * (tiles[term.loop] - 1);
    elements *= size;
  }
  return elements;
}

bool isMergedDimension(const Chain& chain, Subscript subscript) {
  std::ranges::sort(subscript.terms, {}, &Term::coefficient);
  int64_t step = 1;
  for (const Term& term : subscript.terms) {
    if (term.coefficient != step) return false;
    step *= chain.loops[term.loop].extent;
  }
  return true;
}

/// Covers everything that a price depends on: extents, bounds, subscripts, work. Names are left out.
std::string structuralKey(const Chain& chain) {
  std::string content;
  for (const Loop& loop : chain.loops)
    absl::StrAppend(&content, ";", loop.extent, loop.whole ? "w" : "", ":", loop.min_tile, "*", loop.multiple, "~",
                    loop.min_extent);
  for (const Access& tensor : chain.accesses) {
    absl::StrAppend(&content, "|", elementBytes(tensor.dtype));
    for (const Subscript& subscript : tensor.subscripts) {
      absl::StrAppend(&content, ",");
      for (const Term& term : subscript.terms) absl::StrAppend(&content, "+", term.coefficient, "*", term.loop);
    }
  }
  for (const Statement& member : chain.statements) {
    absl::StrAppend(&content, "#", member.output, "@", member.body.flops);
    for (int input : member.inputs) absl::StrAppend(&content, ",", input);
    for (int loop : member.loops) absl::StrAppend(&content, "/", loop);
  }
  return content;
}

std::vector<Chain> unfused(const Chain& chain) {
  std::vector<Chain> parts;
  for (const Statement& member : chain.statements) {
    Chain part{.name = chain.name + "/" + member.name};
    std::map<int, int> loop_of;
    Statement alone = member;
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
      for (const Term& term : subscript.terms) terms.emplace_back(term.loop, term.coefficient);
      return terms;
    };
    for (const Subscript& subscript : chain.accesses[member.output].subscripts) {
      if (isMergedDimension(chain, subscript)) continue;
      Loop loop{.name = ""};
      for (const Term& term : subscript.terms) {
        loop.name += (loop.name.empty() ? "" : "+") + chain.loops[term.loop].name;
        loop.extent += term.coefficient * (chain.loops[term.loop].extent - 1);
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
      Access tensor = chain.accesses[operands[t]];
      for (Subscript& subscript : tensor.subscripts) {
        // h * s + r * s + p contains (h + r) times s, which is replaced if h + r is a merged output dimension.
        std::vector<Term> rest = subscript.terms;
        // Finds the merged output dimensions in the subscript, with their common factor.
        for (const auto& [terms, loop] : merged) {
          int64_t factor = 0;
          bool holds = true;
          for (const auto& [l, stride] : terms) {
            auto at = std::ranges::find(rest, l, &Term::loop);
            holds = holds && at != rest.end() && at->coefficient % stride == 0;
            if (!holds) break;
            const int64_t quotient = at->coefficient / stride;
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
        subscript.terms = rest;
      }
      part.accesses.push_back(std::move(tensor));
      if (t < member.inputs.size()) {
        alone.inputs[t] = static_cast<int>(t);
      } else {
        alone.output = static_cast<int>(t);
      }
    }
    alone.loops.clear();
    for (size_t l = 0; l < part.loops.size(); ++l) alone.loops.push_back(static_cast<int>(l));
    part.statements.push_back(std::move(alone));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace tessera::compiler::fusion
