#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "dcli/package/package.h"
#include "dcli/package/versions.h"
#include "dcli/text/text.h"
#include "fsm/base/names.h"
#include "fsm/package/export_path.h"
#include "fsm/package/tar_reader.h"
#include "fsm/yaml/tree.h"
#include "storage/archive/files.h"

namespace dfsmr::cli {
namespace import_words {

constexpr size_t kPiece = 1 << 20;

// A file of an export, and where its bytes are.
struct Part {
  ExportPath path;
  std::string name;
  std::string file;     // that holds it
  uint64_t offset = 0;  // in that file
  uint64_t size = 0;
};

// The files of an export, each once.
class Parts {
 public:
  Result<Ok> Add(std::string name, const std::string& file, uint64_t offset, uint64_t size) {
    while (name.starts_with("./")) name.erase(0, 2);
    auto path = ParseExportPath(name);
    if (!path) return path.error();
    if (!names_.insert(name).second) return BadArchive(name, "it is there twice");
    all_.push_back({*std::move(path), std::move(name), file, offset, size});
    return Ok{};
  }
  // As they are sent.
  std::vector<Part> Take() && {
    std::ranges::sort(all_, [](const Part& a, const Part& b) {
      return SentBefore(a.path, a.name, b.path, b.name);
    });
    return std::move(all_);
  }

 private:
  std::vector<Part> all_;
  std::set<std::string> names_;
};

class ExportReader : public TarReader {
 public:
  ExportReader(std::string file, Parts* parts)
      : TarReader("an export of a namespace"), file_(std::move(file)), parts_(parts) {}

  Result<Ok> Read() {
    std::ifstream in(file_, std::ios::binary);
    std::string piece(kPiece, '\0');
    while (in) {
      in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      const auto got = static_cast<size_t>(in.gcount());
      if (auto fed = Feed(std::string_view(piece).substr(0, got)); !fed) return fed;
    }
    if (!in.eof()) return Error{Code::kUnavailable, Reason::kNone, "cannot read " + file_};
    return FinishTar();
  }

 private:
  Result<Ok> Begin(const ArchiveEntry& entry) override {
    path_ = entry.path;
    if (entry.kind == EntryKind::kFolder) return Ok{};
    if (entry.kind != EntryKind::kFile) {
      return BadArchive(entry.path, "it is no file, and an export holds files only");
    }
    return parts_->Add(entry.path, file_, entry.offset, entry.size);
  }
  void Data(std::string_view) override {}
  Result<Ok> End() override { return Ok{}; }
  std::string Place() const override { return path_; }

  const std::string file_;
  Parts* const parts_;
  std::string path_;
};

// The files below a folder, as git has them.
Result<Ok> ReadFolder(const std::string& folder, Parts* parts) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = fs::relative(at->path(), folder, error).generic_string();
    if (name == ".git") at.disable_recursion_pending();
    if (error || name == ".git" || (at->is_directory() && !at->is_symlink())) continue;
    if (!at->is_regular_file() || at->is_symlink()) {
      return BadArchive(name, "it is no file, and an export holds files only");
    }
    if (name.starts_with('.')) continue;  // of git
    auto added = parts->Add(name, at->path().string(), 0, at->file_size());
    if (!added) return added;
  }
  if (!error) return Ok{};
  return Error{Code::kUnavailable, Reason::kNone,
               "cannot read the folder " + folder + ": " + error.message()};
}

// The namespace that an export is of.
Result<std::string> NameIn(const std::vector<Part>& parts) {
  if (parts.empty() || parts.front().path.kind != ExportPath::Kind::kSpace) {
    return BadArchive(kSpacePath, "it is missing: this is no export of a namespace");
  }
  auto text = ReadPart(parts.front().file, parts.front().offset,
                       std::min<uint64_t>(parts.front().size, kPiece));
  if (!text) return text.error();
  Reporter ignored((std::string(kSpacePath)));  // the server says what is wrong with it
  const YamlTree tree = ReadYaml(*text, &ignored);
  const YamlNode* root = tree.documents.empty() ? nullptr : tree.documents[0].root;
  const YamlEntry* name = root && root->IsMap() ? root->Find("namespace") : nullptr;
  if (name && name->value->IsScalar() && ValidName(name->value->text)) return name->value->text;
  return BadArchive(kSpacePath, "it names no namespace; --namespace says into which one");
}

// Gives the parts in pieces, and then the item that says that all have come.
class Sender {
 public:
  explicit Sender(std::vector<Part> parts) : parts_(std::move(parts)) {}

  Result<std::optional<v1::ExportItem>> Next() {
    std::optional<v1::ExportItem> item;
    if (ended_) return item;
    item.emplace();
    if (part_ == parts_.size()) {
      item->set_end(ended_ = true);
      return item;
    }
    const Part& part = parts_[part_];
    const uint64_t size = std::min<uint64_t>(part.size - at_, kPiece);
    auto bytes = ReadPart(part.file, part.offset + at_, size);
    if (!bytes) return bytes.error();
    item->set_path(part.name);
    item->set_data(*std::move(bytes));
    at_ += size;
    if (at_ == part.size) {
      at_ = 0;
      ++part_;
    }
    return item;
  }

 private:
  const std::vector<Part> parts_;
  size_t part_ = 0;
  uint64_t at_ = 0;
  bool ended_ = false;
};

Result<std::vector<Part>> PartsOf(const std::string& place) {
  Parts parts;
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(place, ignored);
  auto read = folder ? ReadFolder(place, &parts) : ExportReader(place, &parts).Read();
  if (!read) return read.error();
  return std::move(parts).Take();
}

int Show(Context& context, const v1::ImportNamespaceResponse& done, const std::string& name,
         bool dry_run) {
  if (context.Print(done)) return kSucceeded;
  if (context.names()) {
    context.out << name << '\n';
    return kSucceeded;
  }
  const auto count = [](uint64_t number, const char* what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  context.out << name << ": " << (dry_run ? "would bring " : "")
              << count(done.definitions(), "definition") << ", "
              << count(done.packages(), "package") << ", " << count(done.instances(), "instance");
  if (done.already_there() > 0) context.out << "; there already: " << done.already_there();
  context.out << '\n';
  for (const std::string& secret : done.secrets_to_set()) {
    context.out << "secret to set: " << Escaped(secret) << '\n';
  }
  for (const std::string& note : done.notes()) context.out << "note: " << Escaped(note) << '\n';
  return kSucceeded;
}

}  // namespace import_words

int Import(Context& context, const ImportOptions& options) {
  using namespace import_words;  // NOLINT: its own
  std::string place = options.place;
  std::optional<Result<ScratchFolder>> scratch;
  if (place == "-") {  // its files are sent in another order than they may have there
    scratch.emplace(ScratchFolder::Make());
    if (!*scratch) return context.Fail(kRefused, scratch->error().message);
    place = (*scratch)->path() + "/import.tar";
    std::ofstream copy(place, std::ios::binary);
    if (std::cin.peek() != EOF) copy << std::cin.rdbuf();
    if (!copy.good()) return context.Fail(kRefused, "standard input could not be kept in " + place);
  } else if (access(place.c_str(), R_OK) != 0) {
    return context.Fail(kBadUsage, "cannot read " + place);
  }
  auto parts = PartsOf(place);
  if (!parts) return context.Fail(parts.error());
  v1::ImportNamespaceRequest::Header header;
  auto name = NameIn(*parts);
  if (context.name_space.empty() && !name) return context.Fail(name.error());
  header.set_name(context.name_space.empty() ? *name : context.name_space);
  header.set_validate_only(options.dry_run);
  Sender sender(*std::move(parts));
  const auto done =
      context.client->namespaces().ImportNamespace(header, [&] { return sender.Next(); });
  if (!done) return context.Fail(done.error());
  return Show(context, *done, header.name(), options.dry_run);
}

}  // namespace dfsmr::cli
