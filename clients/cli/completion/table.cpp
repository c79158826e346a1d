#include "clients/cli/completion/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tessera::client {
namespace {

using Flags = std::vector<CompletionFlag>;

std::string oneLine(const std::string& text) { return absl::StrJoin(absl::StrSplit(text, '\n'), " "); }

/// Parses "TEXT:{async,sync}", CLI11's type name of an option with a fixed set of values.
std::vector<std::string> choicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t from = type.find('{');
  const size_t to = type.find('}');
  if (from == std::string::npos || to == std::string::npos || to < from) return {};
  return absl::StrSplit(type.substr(from + 1, to - from - 1), ',');
}

/// CLI11 represents an option group as a command without a name; its options belong to the command.
std::vector<const CLI::App*> groupsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); });
}

void addFlags(const CLI::App& app, Flags& flags) {
  const auto named = [](const CLI::Option* option) { return option->nonpositional() && !option->get_group().empty(); };
  for (const CLI::Option* option : app.get_options(named)) {
    CompletionFlag flag;
    for (const std::string& name : option->get_lnames()) flag.names.push_back(absl::StrCat("--", name));
    for (const std::string& name : option->get_snames()) flag.names.push_back(absl::StrCat("-", name));
    flag.description = oneLine(option->get_description());
    flag.takes_value = option->get_items_expected_max() > 0;
    if (flag.takes_value) flag.choices = choicesOf(*option);
    flags.push_back(std::move(flag));
  }
  for (const CLI::App* group : groupsOf(app)) addFlags(*group, flags);
}

/// The choices of the first positional argument that has a fixed set of values.
std::vector<std::string> positionalChoices(const CLI::App& app) {
  const auto positional = [](const CLI::Option* option) { return option->get_positional(); };
  for (const CLI::Option* option : app.get_options(positional))
    if (std::vector<std::string> choices = choicesOf(*option); !choices.empty()) return choices;
  return {};
}

void addPlaces(const CLI::App& app, const std::string& path, const Flags& everywhere,
               std::vector<CompletionPlace>& places) {
  CompletionPlace place;
  place.path = path;
  const std::vector<const CLI::App*> commands =
      app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
  for (const CLI::App* command : commands)
    place.commands.push_back({command->get_name(), oneLine(command->get_description())});
  addFlags(app, place.flags);
  const auto is_there = [&place](const CompletionFlag& flag) {
    return std::ranges::any_of(place.flags, [&flag](const auto& each) { return each.names == flag.names; });
  };
  for (const CompletionFlag& flag : everywhere)
    if (!is_there(flag)) place.flags.push_back(flag);
  place.choices = positionalChoices(app);
  places.push_back(std::move(place));
  for (const CLI::App* command : commands) {
    addPlaces(*command, path.empty() ? command->get_name() : absl::StrCat(path, " ", command->get_name()), everywhere,
              places);
  }
}

}  // namespace

std::vector<CompletionPlace> completionTable(const CLI::App& app) {
  Flags everywhere;
  addFlags(app, everywhere);
  std::erase_if(everywhere, [](const CompletionFlag& flag) { return flag.names.front() == "--version"; });
  std::vector<CompletionPlace> places;
  addPlaces(app, "", everywhere, places);
  return places;
}

}  // namespace tessera::client
