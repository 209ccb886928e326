// Builds a tree from the events of the YAML library, and guards against aliases and nesting. Other
// files use tree.h.
#pragma once

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fsm/yaml/tree.h"

namespace dfsmr::yaml {

// The lines and characters of offsets, counted from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
      if (static_cast<unsigned char>(text[i]) >= 0x80) ascii_ = false;
    }
  }

  size_t LineOf(size_t offset) const {
    auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
    return static_cast<size_t>(after - starts_.begin()) - 1;
  }
  size_t StartOf(size_t line) const { return starts_[std::min(line, starts_.size() - 1)]; }

  // Counts on from where the last call stopped, since callers mostly go from front to back, and a
  // line may be a mebibyte long.
  Position At(size_t offset) {
    offset = std::min(offset, text_.size());
    size_t line = LineOf(offset);
    size_t start = starts_[line];
    size_t column = offset - start;
    if (!ascii_) {
      if (last_offset_ < start || last_offset_ > offset) {
        last_offset_ = start;
        last_column_ = 0;
      }
      for (; last_offset_ < offset; ++last_offset_) {
        if ((static_cast<unsigned char>(text_[last_offset_]) & 0xC0) != 0x80) ++last_column_;
      }
      column = last_column_;
    }
    return {static_cast<uint32_t>(line + 1), static_cast<uint32_t>(column + 1)};
  }

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
  bool ascii_ = true;
  size_t last_offset_ = 0;
  size_t last_column_ = 0;
};

// A part of the source between `---` and `...` lines.
struct Segment {
  size_t begin;
  size_t end;
};

// What an alias to a node adds to its document.
struct Extent {
  size_t nodes = 0;
  size_t bytes = 0;
  size_t levels = 0;
};

// Thrown to end the reading of a document.
struct Refused {
  size_t offset;
  std::string path;
  std::string message;
};

// Builds the tree of one document from the events of the parser.
class TreeBuilder : public YAML::EventHandler {
 public:
  // `text` is the whole source, and the document is `segment` of it. `total` is the extent of all
  // documents of the source so far.
  TreeBuilder(std::string_view text, Segment segment, Lines* lines, YamlTree* tree, Extent* total,
              Reporter* reporter)
      : text_(text.substr(0, segment.end)),
        begin_(segment.begin),
        begin_line_(lines->LineOf(segment.begin)),
        lines_(lines),
        tree_(tree),
        total_(total),
        reporter_(reporter) {}

  const YamlNode* root() const { return root_; }
  std::string Path() const;
  // Where the innermost open list or map starts; `otherwise` when none is open.
  Position LastOpened(Position otherwise) const {
    return frames_.empty() ? otherwise : frames_.back().node->at;
  }

  // The parser counts bytes from the start of the document.
  size_t OffsetOf(const YAML::Mark& mark) const {
    if (mark.is_null() || mark.line < 0) return begin_;
    auto column = static_cast<size_t>(mark.column);
    if (mark.line == 0) return std::min(begin_ + column, text_.size());
    size_t start = lines_->StartOf(begin_line_ + static_cast<size_t>(mark.line));
    return std::min(start + column, text_.size());
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    YamlNode* node;
    YAML::anchor_t anchor;
    Extent before;      // the total when it was opened
    size_t levels = 1;  // so far, including its own
    bool has_key = false;
    bool key_twice = false;
    YamlEntry key{};
    std::unordered_map<std::string, Position> keys{};
  };
  struct Anchored {
    const YamlNode* node;  // null while it is open
    Extent extent;
  };

  bool ExpectsKey() const {
    return !frames_.empty() && frames_.back().node->IsMap() && !frames_.back().has_key;
  }
  YamlNode* NewNode(YamlNode::Kind kind, size_t offset);
  void AddScalar(size_t offset, bool plain, std::string text, YAML::anchor_t anchor);
  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor);
  void Close();
  void TakeKey(const YamlNode& node, size_t offset);
  void Attach(const YamlNode* node);
  void CheckTag(size_t offset, const std::string& tag);
  std::string NullText(size_t offset) const;
  void CheckClosed(size_t offset) const;

  std::string_view text_;  // of the source, up to the document's end
  size_t begin_;
  size_t begin_line_;
  Lines* lines_;
  YamlTree* tree_;
  Extent* total_;
  Reporter* reporter_;
  const YamlNode* root_ = nullptr;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
};

}  // namespace dfsmr::yaml
