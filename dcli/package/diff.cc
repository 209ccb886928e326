#include <google/protobuf/struct.pb.h>

#include <optional>
#include <set>

#include "dcli/package/package.h"
#include "dcli/package/subject.h"
#include "dcli/package/tool.h"
#include "dcli/package/versions.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

// What is compared: a folder, a file, or the archive of a version that a server has.
struct Compared {
  std::string name;
  Subject subject;
  std::optional<ScratchFolder> folder = {};  // with that archive
};

Result<Compared> FetchVersion(Context& context, const std::string& place) {
  auto named = Resolved(context, place);
  if (!named) return named.error();
  auto folder = ScratchFolder::Make();
  if (!folder) return folder.error();
  std::string path = folder->path() + "/package.dfsmr";
  auto whole = FetchArchive(context, *named, &path);
  if (!whole) return whole.error();
  auto subject = OpenSubject(path + ".part");
  if (!subject) return subject.error();
  return Compared{FullName(*whole), *std::move(subject), *std::move(folder)};
}

// nullopt: it cannot be compared, `status` says how that ends, and the user has been told.
std::optional<Compared> Open(Context& context, const std::string& place, int* status) {
  if (!IsHere(place)) {
    auto fetched = FetchVersion(context, place);
    if (fetched) return *std::move(fetched);
    *status = context.Fail(fetched.error());
    return std::nullopt;
  }
  auto subject = OpenSubject(place);
  if (subject) {
    std::string name = subject->name;
    return Compared{std::move(name), *std::move(subject)};
  }
  *status = FailToOpen(context, place, subject.error());
  return std::nullopt;
}

// One side of a file: absent, a link, or bytes.
struct Side {
  const PackageFile* file = nullptr;
  std::string label;
  std::string text;
};

Result<Side> SideOf(const Compared& one, const std::string& path) {
  Side side{.file = nullptr, .label = one.name + "/" + path, .text = ""};
  const auto found = one.subject.files.find(path);
  if (found == one.subject.files.end()) return side;
  side.file = &found->second;
  if (!side.file->link.empty()) {
    side.text = "link to " + side.file->link + "\n";
    return side;
  }
  auto text = one.subject.Read(path);
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
  int status = kSucceeded;
  const auto a = Open(context, options.places[0], &status);
  if (!a) return status;
  const auto b = Open(context, options.places[1], &status);
  if (!b) return status;
  std::set<std::string> paths;
  for (const auto& [path, file] : a->subject.files) paths.insert(path);
  for (const auto& [path, file] : b->subject.files) paths.insert(path);
  const auto folder = ScratchFolder::Make();
  if (!folder) return context.Fail(folder.error());
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
    const auto text = TextDiff(*left, *right, folder->path());
    if (!text) return context.Fail(kBadUsage, text.error().message);
    context.out << EscapedLines(*text);
  }
  if (for_programs) context.Print(reply);
  return same ? kSucceeded : kRefused;
}

}  // namespace dfsmr::cli
