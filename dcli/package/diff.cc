#include <google/protobuf/struct.pb.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "dcli/package/package.h"
#include "dcli/package/subject.h"
#include "dcli/package/tool.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ignored;
    std::string name =
        (std::filesystem::temp_directory_path(ignored) / "dcli-diff-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One side of a file: absent, a link, or bytes.
struct Side {
  const PackageFile* file = nullptr;
  std::string label;
  std::string text;
};

Result<Side> SideOf(const Subject& subject, const std::string& path) {
  Side side{.file = nullptr, .label = subject.name + "/" + path, .text = ""};
  const auto found = subject.files.find(path);
  if (found == subject.files.end()) return side;
  side.file = &found->second;
  if (!side.file->link.empty()) {
    side.text = "link to " + side.file->link + "\n";
    return side;
  }
  auto text = subject.Read(path);
  if (!text) return text.error();
  side.text = *std::move(text);
  return side;
}

bool Same(const Side& a, const Side& b) {
  return a.file != nullptr && b.file != nullptr && a.text == b.text &&
         a.file->executable == b.file->executable && a.file->link == b.file->link;
}

bool IsBinary(const std::string& text) { return text.find('\0') != text.npos; }

std::string ModeLine(const Side& a, const Side& b) {
  if (a.file == nullptr || b.file == nullptr || a.file->executable == b.file->executable) return "";
  const Side& executable = a.file->executable ? a : b;
  return "only " + executable.label + " is executable\n";
}

Result<std::string> TextDiff(const Side& a, const Side& b, const std::string& folder) {
  if (IsBinary(a.text) || IsBinary(b.text)) {
    if (a.file == nullptr) return "only in " + b.label + " (binary)\n";
    if (b.file == nullptr) return "only in " + a.label + " (binary)\n";
    return "binary files " + a.label + " and " + b.label + " differ\n";
  }
  const std::string old_file = folder + "/a";
  const std::string new_file = folder + "/b";
  for (const auto& [path, side] : {std::pair(&old_file, &a), std::pair(&new_file, &b)}) {
    if (auto written = WriteWholeFile(*path, side->text); !written) return written.error();
  }
  const auto label = [](const Side& side) {
    return side.file == nullptr ? std::string("/dev/null") : side.label;
  };
  const auto ran = RunTool(
      {"diff", "-u", "--label", label(a), "--label", label(b), "--", old_file, new_file}, "");
  if (!ran) return ran.error();
  if (ran->status > 1) return Error{Code::kInternal, Reason::kNone, "diff failed"};
  if (!ran->out.empty()) return ran->out;
  return "only in " + (a.file == nullptr ? b.label : a.label) + " (empty)\n";
}

void AddTo(google::protobuf::Struct* reply, const char* key, const std::string& path) {
  (*reply->mutable_fields())[key].mutable_list_value()->add_values()->set_string_value(path);
}

// Control characters of what is compared are shown escaped, line by line; tabs stay.
std::string EscapedLines(const std::string& text) {
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::vector<std::string> parts = Split(text.substr(begin, end - begin), '\t');
    for (std::string& part : parts) part = Escaped(part);
    lines += Join(parts, "\t") + "\n";
    begin = end + 1;
  }
  return lines;
}

}  // namespace

int DiffPackages(Context& context, const PackageOptions& options) {
  const auto a = OpenSubject(options.places[0]);
  if (!a) return FailToOpen(context, options.places[0], a.error());
  const auto b = OpenSubject(options.places[1]);
  if (!b) return FailToOpen(context, options.places[1], b.error());
  std::set<std::string> paths;
  for (const auto& [path, file] : a->files) paths.insert(path);
  for (const auto& [path, file] : b->files) paths.insert(path);
  const TemporaryFolder folder;
  const bool for_programs =
      context.format == OutputFormat::kJson || context.format == OutputFormat::kYaml;
  google::protobuf::Struct reply;
  bool same = true;
  for (const std::string& path : paths) {
    const auto left = SideOf(*a, path);
    if (!left) return FailToOpen(context, a->name, left.error());
    const auto right = SideOf(*b, path);
    if (!right) return FailToOpen(context, b->name, right.error());
    if (Same(*left, *right)) continue;
    same = false;
    AddTo(&reply,
          left->file == nullptr    ? "added"
          : right->file == nullptr ? "removed"
                                   : "changed",
          path);
    if (for_programs) continue;
    if (context.names()) {
      context.out << Escaped(path) << '\n';
      continue;
    }
    context.out << EscapedLines(ModeLine(*left, *right));
    if (left->file != nullptr && right->file != nullptr && left->text == right->text) continue;
    const auto text = TextDiff(*left, *right, folder.path());
    if (!text) return context.Fail(kBadUsage, text.error().message);
    context.out << EscapedLines(*text);
  }
  if (for_programs) context.Print(reply);
  return same ? kSucceeded : kRefused;
}

}  // namespace dfsmr::cli
