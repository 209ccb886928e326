#include "fsm/yaml/builder.h"

#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr::yaml {

std::string TreeBuilder::Path() const {
  std::string path;
  for (const Frame& frame : frames_) {
    if (frame.node->IsList()) {
      path += "[" + std::to_string(frame.node->items.size()) + "]";
    } else if (frame.has_key) {
      path = PathTo(path, frame.key.key);
    }
  }
  return path;
}

YamlNode* TreeBuilder::NewNode(YamlNode::Kind kind, size_t offset) {
  ++total_->nodes;
  YamlNode& node = tree_->nodes.emplace_back();
  node.kind = kind;
  node.at = lines_->At(offset);
  return &node;
}

// The text of a null: the parser does not distinguish `null`, `~` and nothing, but names are text.
std::string TreeBuilder::NullText(size_t offset) const {
  std::string_view rest = text_.substr(offset);
  for (std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (!rest.starts_with(word)) continue;
    std::string_view after = rest.substr(word.size());
    if (after.empty() || std::string_view(" \t\r\n,:]}").find(after[0]) != std::string_view::npos) {
      return std::string(word);
    }
  }
  return "";
}

void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  size_t offset = OffsetOf(mark);
  AddScalar(offset, true, NullText(offset), anchor);
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  size_t offset = OffsetOf(mark);
  CheckTag(offset, tag);
  if (tag != "?") CheckClosed(offset);
  AddScalar(offset, tag == "?", value, anchor);
}

// Refuses an open quote, which the parser would close at the end of the text: a whole file would be
// one value.
void TreeBuilder::CheckClosed(size_t offset) const {
  size_t at = offset;
  while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
    at = std::min(text_.find_first_of(" \t\r\n", at), text_.size());
    at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
  }
  if (at == text_.size() || (text_[at] != '"' && text_[at] != '\'')) return;
  const char quote = text_[at];
  for (size_t i = at + 1; i < text_.size(); ++i) {
    if (quote == '"' && text_[i] == '\\') {
      ++i;
    } else if (text_[i] == quote) {
      if (quote == '"' || i + 1 == text_.size() || text_[i + 1] != quote) return;
      ++i;  // '' is a quote within the text
    }
  }
  throw Refused{at, Path(), "not YAML: a quote is not closed"};
}

void TreeBuilder::AddScalar(size_t offset, bool plain, std::string text, YAML::anchor_t anchor) {
  YamlNode* node = NewNode(YamlNode::Kind::kScalar, offset);
  node->plain = plain;
  node->text = std::move(text);
  total_->bytes += node->text.size();
  if (anchor != YAML::NullAnchor) anchors_[anchor] = {node, {1, node->text.size(), 0}};
  if (ExpectsKey()) {
    TakeKey(*node, offset);
    return;
  }
  if (node->IsEmpty() && !frames_.empty() && frames_.back().has_key) {
    node->at = frames_.back().key.at;
  }
  Attach(node);
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  size_t offset = OffsetOf(mark);
  auto it = anchors_.find(anchor);
  if (it == anchors_.end() || it->second.node == nullptr) {
    throw Refused{offset, Path(), "the alias stands inside of what it refers to; write it out"};
  }
  const Extent& extent = it->second.extent;
  if (ExpectsKey()) {
    TakeKey(*it->second.node, offset);
    return;
  }
  total_->nodes += extent.nodes;
  total_->bytes += extent.bytes;
  if (total_->nodes > kYamlNodesMax || total_->bytes > limits::kSource) {
    throw Refused{offset, Path(),
                  "aliases expand the source to more than " + std::to_string(kYamlNodesMax) +
                      " values or 1 MiB; write out what is needed"};
  }
  if (frames_.size() + extent.levels > limits::kYamlDepth) {
    throw Refused{offset, Path(), "the alias expands to more than " +
                                      std::to_string(limits::kYamlDepth) + " levels of nesting"};
  }
  if (!frames_.empty()) {
    frames_.back().levels = std::max(frames_.back().levels, extent.levels + 1);
  }
  Attach(it->second.node);
}

void TreeBuilder::CheckTag(size_t offset, const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return;
  reporter_->Error(lines_->At(offset), Path(),
                   "tags are not supported: remove it, and quote what is meant as text");
}

void TreeBuilder::Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor) {
  size_t offset = OffsetOf(mark);
  if (ExpectsKey()) {
    throw Refused{offset, Path(), "a key must be text, not a map or list; perhaps a '{' or '[' is "
                                  "not closed, or wants quotes"};
  }
  if (frames_.size() >= limits::kYamlDepth) {
    throw Refused{offset, "", "more than " + std::to_string(limits::kYamlDepth) +
                                  " levels of nesting"};
  }
  CheckTag(offset, tag);
  Extent before = *total_;
  YamlNode* node = NewNode(kind, offset);
  if (anchor != YAML::NullAnchor) anchors_[anchor] = {nullptr, {}};
  frames_.push_back({node, anchor, before});
}

void TreeBuilder::Close() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  if (frame.anchor != YAML::NullAnchor) {
    anchors_[frame.anchor] = {frame.node,
                              {total_->nodes - frame.before.nodes,
                               total_->bytes - frame.before.bytes, frame.levels}};
  }
  if (!frames_.empty()) {
    frames_.back().levels = std::max(frames_.back().levels, frame.levels + 1);
  }
  Attach(frame.node);
}

void TreeBuilder::TakeKey(const YamlNode& node, size_t offset) {
  Frame& frame = frames_.back();
  if (!node.IsScalar()) throw Refused{offset, Path(), "a key must be text, not a map or list"};
  Position at = lines_->At(offset);
  frame.has_key = true;
  frame.key = {node.text, at, nullptr};
  total_->bytes += node.text.size();
  auto [first, fresh] = frame.keys.emplace(node.text, at);
  frame.key_twice = !fresh;
  if (!fresh) {
    reporter_->Error(at, Path(), "key " + Quoted(node.text) + " is there twice, first in line " +
                                     std::to_string(first->second.line) + "; keep one of them");
  } else if (node.plain && node.text == "<<") {
    reporter_->Error(at, Path(), "merge keys are not supported; write the keys out, or put those "
                                 "that work nodes share under 'defaults'");
    frame.key_twice = true;
  }
}

void TreeBuilder::Attach(const YamlNode* node) {
  if (frames_.empty()) {
    root_ = node;
    return;
  }
  Frame& frame = frames_.back();
  if (frame.node->IsList()) {
    frame.node->items.push_back(node);
    return;
  }
  frame.key.value = node;
  if (!frame.key_twice) frame.node->entries.push_back(std::move(frame.key));
  frame.has_key = false;
}

}  // namespace dfsmr::yaml
