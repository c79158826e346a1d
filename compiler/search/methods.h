#pragma once

#include <memory>

#include "compiler/search/search.h"

/// The search methods, one file each; makeSearch() maps names to them.
namespace tessera::compiler::search {

std::unique_ptr<Search> makeWalk(const v1::Schedule& start, const SearchOptions& options);
std::unique_ptr<Search> makeRandom(const v1::Schedule& start, const SearchOptions& options);
std::unique_ptr<Search> makeEveryDirection(const v1::Schedule& start, const SearchOptions& options);
std::unique_ptr<Search> makeQLearning(const v1::Schedule& start, const SearchOptions& options);
std::unique_ptr<Search> makeEvolutionary(const v1::Schedule& start, const SearchOptions& options);
std::unique_ptr<Search> makeModelGuided(const v1::Schedule& start, const SearchOptions& options);

}  // namespace tessera::compiler::search
