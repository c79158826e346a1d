#include "clients/cli/completion/scripts.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "clients/cli/completion/table.h"

namespace tessera::client {
namespace {

/// The parts of a shell's completion script around the table.
struct Driver {
  const char* head;
  const char* tail;
};

// In all scripts a word after a flag that takes a value is that value, never a command.

constexpr Driver kBash = {R"(# bash completion of tessera, as `tessera completion bash` prints it.
_tessera_place() {
  commands='' flags='' takes='' choices=''
  case "$1" in
)",
                          R"(  esac
}

_tessera() {
  local commands flags takes choices path='' flag='' word i current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  _tessera_place ''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' || ($i == 1 && $word == help) ]]; then
      continue  # --flag=value is three words here
    elif [[ -n $flag ]]; then
      flag=''
    elif [[ " $takes " == *" $word "* ]]; then
      flag=$word
    elif [[ " $commands " == *" $word "* ]]; then
      path="${path:+$path }$word"
      _tessera_place "$path"
    fi
  done
  [[ $current == '=' ]] && current=''
  if [[ -n $flag ]]; then
    _tessera_choices "$path" "$flag"
  elif [[ $current == -* ]]; then
    choices=$flags
  elif [[ -n $commands ]]; then
    choices=$commands
  fi
  [[ -n $choices ]] && mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
}

complete -o default -o bashdefault -F _tessera tessera
)"};

// zsh itself defines $commands, so the script uses another name.
constexpr Driver kZsh = {R"(#compdef tessera
# zsh completion of tessera, as `tessera completion zsh` prints it.
_tessera_place() {
  subcommands=() flags=() takes=() choices=()
  case "$1" in
)",
                         R"(  esac
}

_tessera() {
  local -a subcommands flags takes choices
  local place='' flag='' word
  integer i
  _tessera_place ''
  for ((i = 2; i < CURRENT; ++i)); do
    word=${words[i]}
    if [[ $i == 2 && $word == help ]]; then
      continue
    elif [[ -n $flag ]]; then
      flag=''
    elif (( ${takes[(Ie)$word]} )); then
      flag=$word
    elif (( ${subcommands[(I)$word:*]} )); then
      place="${place:+$place }$word"
      _tessera_place "$place"
    fi
  done
  if [[ -z $flag && $PREFIX == --*=* ]]; then
    flag=${PREFIX%%=*}
    compset -P '*='
  fi
  if [[ -n $flag ]]; then
    choices=()
    _tessera_choices "$place" "$flag"
    (( $#choices )) && compadd -a choices || _files
  elif [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  elif (( $#subcommands )); then
    _describe command subcommands
  elif (( $#choices )); then
    compadd -a choices
  else
    _files
  fi
}

if [[ ${funcstack[1]} == _tessera ]]; then
  _tessera "$@"  # found in fpath
else
  compdef _tessera tessera
fi
)"};

constexpr Driver kFish = {R"(# fish completion of tessera, as `tessera completion fish` prints it.
# Names and what they mean stand in turns.
function __tessera_place --no-scope-shadowing
  set commands; set flags; set takes; set choices
  switch "$argv[1]"
)",
                          R"(  end
end

function __tessera_print
  for i in (seq 1 2 (count $argv))
    printf '%s\t%s\n' $argv[$i] $argv[(math $i + 1)]
  end
end

function __tessera_complete
  set -l commands; set -l flags; set -l takes; set -l choices
  set -l place ''
  set -l flag ''
  set -l current (commandline -ct)
  set -l tokens (commandline -opc)
  __tessera_place ''
  for word in $tokens[2..-1]
    if test -n "$flag"
      set flag ''
    else if contains -- $word $takes
      set flag $word
    else if test "$word" != help; and contains -- $word $commands
      set place (string trim "$place $word")
      __tessera_place $place
    end
  end
  set -l before ''
  if test -z "$flag"; and string match -q -- '--*=*' $current
    set flag (string replace -r '=.*' '' -- $current)
    set before $flag=
    set current (string replace -r '^[^=]*=' '' -- $current)
  end
  if test -n "$flag"
    set choices
    __tessera_choices "$place" $flag
    if set -q choices[1]
      printf '%s\n' $before$choices
    else
      __fish_complete_path $current
    end
  else if string match -q -- '-*' $current
    __tessera_print $flags
  else if set -q commands[1]
    __tessera_print $commands
  else if set -q choices[1]
    printf '%s\n' $choices
  else
    __fish_complete_path $current
  end
end

complete -c tessera -f -a '(__tessera_complete)'
)"};

std::string joined(const std::vector<std::string>& words) { return absl::StrJoin(words, " "); }

std::string inQuotes(const std::string& text, absl::string_view quote_within) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", quote_within}}), "'");
}

/// Quotes a text for these shells: a quote inside ends the string, is quoted in the other style, and starts a new
/// string.
std::string quoted(const std::string& text) { return inQuotes(text, R"('\'')"); }

std::string quotedForFish(const std::string& text) {
  return inQuotes(absl::StrReplaceAll(text, {{"\\", R"(\\)"}}), R"(\')");
}

std::vector<std::string> namesOf(const std::vector<CompletionFlag>& flags, bool that_take_values) {
  std::vector<std::string> names;
  for (const CompletionFlag& flag : flags)
    if (!that_take_values || flag.takes_value) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

std::vector<std::string> namesOf(const std::vector<CompletionCommand>& commands) {
  std::vector<std::string> names;
  for (const CompletionCommand& command : commands) names.push_back(command.name);
  return names;
}

/// After the program's name, `help` is accepted too, which --help does not list.
std::vector<CompletionPlace> tableOf(const CLI::App& app) {
  std::vector<CompletionPlace> places = completionTable(app);
  places.front().commands.push_back({"help", "What a command does, and its flags"});
  return places;
}

using ChoicesFn = std::function<void(const std::string& path, const CompletionFlag& flag)>;

void forEachWithChoices(const std::vector<CompletionPlace>& places, const ChoicesFn& use) {
  for (const CompletionPlace& place : places)
    for (const CompletionFlag& flag : place.flags)
      if (!flag.choices.empty()) use(place.path, flag);
}

/// Formats `words` as array elements "name:description", the format of zsh's _describe.
template <typename Described>
std::string described(const std::vector<Described>& all,
                      const std::function<std::vector<std::string>(const Described&)>& names) {
  std::string text;
  for (const Described& each : all)
    for (const std::string& name : names(each))
      absl::StrAppend(&text, " ", quoted(absl::StrCat(name, ":", each.description)));
  return text;
}

template <typename Described>
std::string inTurns(const std::vector<Described>& all,
                    const std::function<std::vector<std::string>(const Described&)>& names) {
  std::string text;
  for (const Described& each : all)
    for (const std::string& name : names(each)) absl::StrAppend(&text, " ", name, " ", quotedForFish(each.description));
  return text;
}

std::vector<std::string> nameOf(const CompletionCommand& command) { return {command.name}; }
std::vector<std::string> flagNamesOf(const CompletionFlag& flag) { return flag.names; }

}  // namespace

std::string bashCompletion(const CLI::App& app) {
  const std::vector<CompletionPlace> places = tableOf(app);
  std::string text = "_tessera_choices() {\n  choices=''\n  case \"$1 $2\" in\n";
  forEachWithChoices(places, [&text](const std::string& path, const CompletionFlag& flag) {
    for (const std::string& name : flag.names)
      absl::StrAppend(&text, "    '", path, " ", name, "') choices='", joined(flag.choices), "' ;;\n");
  });
  absl::StrAppend(&text, "  esac\n}\n\n", kBash.head);
  for (const CompletionPlace& place : places) {
    absl::StrAppend(&text, "    '", place.path, "')\n      commands='", joined(namesOf(place.commands)),
                    "'\n      flags='", joined(namesOf(place.flags, false)), "'\n      takes='",
                    joined(namesOf(place.flags, true)), "'\n      choices='", joined(place.choices), "'\n      ;;\n");
  }
  return absl::StrCat(text, kBash.tail);
}

std::string zshCompletion(const CLI::App& app) {
  const std::vector<CompletionPlace> places = tableOf(app);
  std::string text = kZsh.head;  // the first line must be the script's first line
  for (const CompletionPlace& place : places) {
    absl::StrAppend(&text, "    '", place.path, "')\n      subcommands=(",
                    described<CompletionCommand>(place.commands, nameOf), " )\n      flags=(",
                    described<CompletionFlag>(place.flags, flagNamesOf), " )\n      takes=(",
                    joined(namesOf(place.flags, true)), ")\n      choices=(", joined(place.choices), ")\n      ;;\n");
  }
  absl::StrAppend(&text, "  esac\n}\n\n_tessera_choices() {\n  case \"$1 $2\" in\n");
  forEachWithChoices(places, [&text](const std::string& path, const CompletionFlag& flag) {
    for (const std::string& name : flag.names)
      absl::StrAppend(&text, "    '", path, " ", name, "') choices=(", joined(flag.choices), ") ;;\n");
  });
  return absl::StrCat(text, kZsh.tail);
}

std::string fishCompletion(const CLI::App& app) {
  const std::vector<CompletionPlace> places = tableOf(app);
  std::string text = kFish.head;
  for (const CompletionPlace& place : places) {
    absl::StrAppend(&text, "    case '", place.path, "'\n      set commands",
                    inTurns<CompletionCommand>(place.commands, nameOf), "\n      set flags",
                    inTurns<CompletionFlag>(place.flags, flagNamesOf), "\n      set takes ",
                    joined(namesOf(place.flags, true)), "\n      set choices ", joined(place.choices), "\n");
  }
  absl::StrAppend(&text,
                  "  end\nend\n\nfunction __tessera_choices --no-scope-shadowing\n  switch \"$argv[1] $argv[2]\"\n");
  forEachWithChoices(places, [&text](const std::string& path, const CompletionFlag& flag) {
    for (const std::string& name : flag.names)
      absl::StrAppend(&text, "    case '", path, " ", name, "'\n      set choices ", joined(flag.choices), "\n");
  });
  return absl::StrCat(text, kFish.tail);
}

}  // namespace tessera::client
