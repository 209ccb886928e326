#include "fsm/yaml/tree.h"

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <sstream>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/builder.h"

namespace dfsmr {
namespace {

using yaml::Extent;
using yaml::Lines;
using yaml::Refused;
using yaml::Segment;
using yaml::TreeBuilder;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsNullText(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

constexpr std::string_view kTabMessage = "illegal tab when looking for indentation";

// Explains the parser's terse messages for the most common mistakes.
std::string Explain(std::string_view message) {
  struct Case {
    std::string_view message;
    std::string_view explanation;
  };
  static constexpr Case kCases[] = {
      {"illegal map value", "a ':' where no value can start; check the indentation, or quote text "
                            "that holds ': '"},
      {"end of map not found", "this does not belong to the map above it; check the indentation"},
      {"end of sequence not found", "this does not belong to the list above it; check the "
                                    "indentation"},
      {"end of map flow not found", "a '{' is not closed by '}', or a ',' is missing"},
      {"end of sequence flow not found", "a '[' is not closed by ']', or a ',' is missing"},
      {"illegal EOF in scalar", "a quote is not closed"},
      {"unknown token", "text cannot start with this character; quote it"},
      {kTabMessage, "a tab in the indentation; use spaces"},
      {"the referenced anchor is not defined", "the alias refers to an anchor that is not there"},
      {"illegal flow end", "a '}' or ']' that closes nothing"},
      {"illegal block entry", "a '-' where no list can start; check the indentation"},
      {"illegal map key", "a key where none can stand; check the indentation"},
  };
  for (const Case& known : kCases) {
    if (message.starts_with(known.message)) return "not YAML: " + std::string(known.explanation);
  }
  return "not YAML: " + std::string(message);
}

bool IsMarker(std::string_view line) {
  if (!line.starts_with("---") && !line.starts_with("...")) return false;
  return line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r';
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// A line that starts with a marker ends a document anywhere, even in quoted text. So documents can
// be separated before any of them is parsed, and a broken one does not hide the others.
std::vector<Segment> Split(std::string_view text) {
  std::vector<Segment> segments;
  size_t begin = 0;
  for (size_t line = 0; line < text.size();) {
    size_t end = std::min(text.find('\n', line), text.size());
    size_t next = std::min(end + 1, text.size());
    if (IsMarker(text.substr(line, end - line))) {
      segments.push_back({begin, line});
      begin = IsBlank(text.substr(line + 3, end - line - 3)) ? next : line + 3;
    }
    line = next;
  }
  segments.push_back({begin, text.size()});
  return segments;
}

// False: there are only blank lines, comments and directives.
bool HasContent(std::string_view document) {
  while (!document.empty()) {
    size_t end = std::min(document.find('\n'), document.size());
    std::string_view line = document.substr(0, end);
    size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#' && line[0] != '%') return true;
    document.remove_prefix(std::min(end + 1, document.size()));
  }
  return false;
}

// Whether a tab indents the line of this place. In front of a document's first key the parser takes
// it for the space between words.
bool AfterTab(std::string_view text, size_t offset) {
  const size_t break_at = offset == 0 ? text.npos : text.rfind('\n', offset - 1);
  const std::string_view line = text.substr(break_at == text.npos ? 0 : break_at + 1);
  return line.substr(0, line.find_first_not_of(" \t")).find('\t') != line.npos;
}

const YamlNode* ReadDocument(std::string_view text, Segment segment, Lines* lines, YamlTree* tree,
                             Extent* total, Reporter* reporter) {
  TreeBuilder builder(text, segment, lines, tree, total, reporter);
  try {
    std::istringstream in(std::string(text.substr(segment.begin, segment.end - segment.begin)));
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    // The parser takes text that follows a complete value for another document.
    TreeBuilder rest(text, segment, lines, tree, total, reporter);
    if (!parser.HandleNextDocument(rest)) return builder.root();
    reporter->Error(rest.root() ? rest.root()->at : Position{}, "",
                    "not YAML: this does not belong to the value above it; check the indentation, "
                    "or start a new document with a line '---'");
  } catch (const Refused& refused) {
    reporter->Error(lines->At(refused.offset), refused.path, refused.message);
  } catch (const YAML::Exception& e) {
    size_t offset = builder.OffsetOf(e.mark);
    Position at = lines->At(offset);
    // An error at the end of the document comes from something that was not closed: show its start.
    bool at_end = offset >= segment.end || IsBlank(text.substr(offset, segment.end - offset));
    const bool reference = offset > 0 && text.substr(offset - 1).starts_with("${");
    const bool first_key = builder.Path().empty() && e.msg.starts_with("illegal map value");
    const bool tab = first_key && AfterTab(text, offset);
    reporter->Error(at_end ? builder.LastOpened(at) : at, builder.Path(),
                    reference ? "not YAML: quote text that holds '${'"
                              : Explain(tab ? kTabMessage : std::string_view(e.msg)));
  } catch (const std::exception& e) {
    reporter->Error(lines->At(segment.begin), builder.Path(), Explain(e.what()));
  }
  return nullptr;
}

// What is wrong with the character at `i`, which the parser could take for the end of the text.
std::optional<std::string> CharacterProblem(std::string_view text, size_t i) {
  unsigned char c = static_cast<unsigned char>(text[i]);
  if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') return std::nullopt;
  if ((c >= 0x20 && c != 0x7F) || c == '\t' || c == '\n') return std::nullopt;
  return "control character " + Quoted(text.substr(i, 1)) +
         "; remove it, or write it as an escape in double quotes";
}

bool CheckText(std::string_view text, Lines* lines, Reporter* reporter) {
  if (auto bad = InvalidUtf8(text)) {
    reporter->Error(lines->At(*bad), "", "not UTF-8; save the file in that encoding");
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (auto problem = CharacterProblem(text, i)) {
      reporter->Error(lines->At(i), "", *problem);
      return false;
    }
  }
  return true;
}

}  // namespace

bool YamlNode::IsNull() const { return IsScalar() && plain && IsNullText(text); }

const YamlEntry* YamlNode::Find(std::string_view key) const {
  auto it = std::ranges::find(entries, key, &YamlEntry::key);
  return it == entries.end() ? nullptr : &*it;
}

YamlTree ReadYaml(std::string_view text, Reporter* reporter, OnEmpty on_empty) {
  YamlTree tree;
  if (text.size() > limits::kSource) {
    reporter->Error({}, "", "the source has " + std::to_string(text.size()) +
                                " bytes; at most 1 MiB (1048576) is allowed");
    return tree;
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Lines lines(text);
  if (!CheckText(text, &lines, reporter)) return tree;
  Extent total;
  for (const Segment& segment : Split(text)) {
    std::string_view source = text.substr(segment.begin, segment.end - segment.begin);
    if (!HasContent(source)) continue;
    if (reporter->Full()) break;
    const size_t errors = reporter->errors();
    const YamlNode* root = ReadDocument(text, segment, &lines, &tree, &total, reporter);
    tree.documents.push_back({source, root, reporter->errors() == errors});
  }
  if (tree.documents.empty() && on_empty == OnEmpty::kRefuse) {
    reporter->Error({}, "", "the source is empty; it needs at least one document, such as a "
                            "machine with 'id' and 'nodes'");
  }
  return tree;
}

std::string Describe(const YamlNode& node) {
  if (node.IsMap()) return "a map";
  if (node.IsList()) return "a list";
  return node.IsEmpty() ? "nothing" : Quoted(node.text);
}

}  // namespace dfsmr
