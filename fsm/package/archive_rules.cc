#include "fsm/package/archive_rules.h"

#include <algorithm>
#include <vector>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr int kLinksFollowed = 40;  // as Linux does
constexpr size_t kLinkTarget = 255;
constexpr uint64_t kBlock = 512;

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Control characters of ASCII and of Latin-1.
bool HasControls(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      return true;
    }
  }
  return false;
}

std::optional<std::string> TextProblem(std::string_view text) {
  if (InvalidUtf8(text)) return "is not UTF-8";
  if (HasControls(text)) return "has a control character";
  return std::nullopt;
}

// Where a path leads that begins in the folder of `from`.
struct Walk {
  bool out = false;      // it leaves the package
  bool endless = false;  // through more links than anybody follows
  std::string path;      // where it ends
};

Walk Follow(const PackageFiles& files, std::string_view from, std::string_view target) {
  std::vector<std::string> open;  // parts to go, the next one last
  const auto push = [&open](std::string_view path) {
    const auto parts = PartsOf(path);
    for (size_t i = parts.size(); i-- > 0;) open.emplace_back(parts[i]);
  };
  push(target);
  if (const size_t slash = from.rfind('/'); slash != from.npos) push(from.substr(0, slash));
  Walk walk;
  std::vector<std::string> place;
  for (int links = 0; !open.empty();) {
    const std::string part = std::move(open.back());
    open.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (place.empty()) walk.out = true;
      if (walk.out) return walk;
      place.pop_back();
      continue;
    }
    std::string path;
    for (const std::string& one : place) path += one + "/";
    path += part;
    const auto file = files.find(path);
    if (file == files.end() || file->second.link.empty()) {
      place.push_back(part);
      continue;
    }
    if (++links > kLinksFollowed) {
      walk.endless = true;
      return walk;
    }
    push(file->second.link);
  }
  for (const std::string& one : place) walk.path += (walk.path.empty() ? "" : "/") + one;
  return walk;
}

std::string_view NameOf(EntryKind kind) {
  constexpr std::string_view kNames[] = {
      "a file",   "a folder", "a link",        "a hard link",
      "a device", "a FIFO",   "a sparse file", "neither a file nor a link"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

Error BadArchive(std::string_view entry, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kBadArchive,
          (entry.empty() ? "" : "entry " + Quoted(entry) + ": ") + why};
}

Error TooLarge(std::string_view entry, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kTooLarge,
          (entry.empty() ? "" : "entry " + Quoted(entry) + ": ") + why};
}

std::optional<std::string> PathProblem(std::string_view path) {
  if (path.empty()) return "the path is empty";
  if (auto problem = TextProblem(path)) return "the path " + *problem;
  if (path.starts_with('/')) return "the path is absolute; paths begin in the package's folder";
  for (const std::string_view part : PartsOf(path)) {
    if (part.empty()) return "the path has an empty part";
    if (part == "." || part == "..") return "the path has the part '" + std::string(part) + "'";
  }
  return std::nullopt;
}

Result<std::string> ArchiveRules::BelowTop(const ArchiveEntry& entry) {
  std::string_view path = entry.path;
  if (entry.kind == EntryKind::kFolder && path.ends_with('/')) path.remove_suffix(1);
  if (entry.path.size() > limits::kArchivePath) {
    return TooLarge(entry.path, "the path has " + std::to_string(entry.path.size()) +
                                    " bytes; at most " + std::to_string(limits::kArchivePath));
  }
  if (auto problem = PathProblem(path)) return BadArchive(entry.path, *problem);
  const size_t slash = path.find('/');
  const std::string_view top = path.substr(0, slash);
  if (slash == path.npos && entry.kind != EntryKind::kFolder) {
    return BadArchive(entry.path, "it is in no top folder; all is in one folder NAME-VERSION/");
  }
  if (top_.empty()) top_ = top;
  if (top != top_) {
    return BadArchive(entry.path, "it is in another top folder than " + Quoted(top_ + "/"));
  }
  if (slash == path.npos) return std::string();
  std::string below(path.substr(slash + 1));
  const auto levels = static_cast<size_t>(std::ranges::count(below, '/')) + 1;
  if (levels > limits::kArchiveLevels) {
    return TooLarge(entry.path, "the path has " + std::to_string(levels) + " levels; at most " +
                                    std::to_string(limits::kArchiveLevels));
  }
  return below;
}

Result<Ok> ArchiveRules::CheckKind(const ArchiveEntry& entry) const {
  if (entry.kind > EntryKind::kLink) {
    return BadArchive(entry.path, "it is " + std::string(NameOf(entry.kind)) +
                                      "; a package holds regular files and symbolic links");
  }
  if (entry.kind != EntryKind::kLink) return Ok{};
  if (entry.link.empty()) return BadArchive(entry.path, "the link leads nowhere");
  if (auto problem = TextProblem(entry.link)) {
    return BadArchive(entry.path, "the link's target " + *problem);
  }
  if (entry.link.starts_with('/')) {
    return BadArchive(entry.path, "the link's target " + Quoted(entry.link) +
                                      " is absolute; links lead to "
                                      "files of the package, from the folder that they are in");
  }
  if (entry.link.size() > kLinkTarget) {
    return TooLarge(entry.path, "the link's target has more than 255 bytes");
  }
  return Ok{};
}

Result<Ok> ArchiveRules::CheckPlace(const ArchiveEntry& entry, const std::string& path) const {
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
    const auto above = files_.find(std::string_view(path).substr(0, end));
    if (above == files_.end()) continue;
    const bool link = !above->second.link.empty();
    return BadArchive(entry.path, std::string("its path leads through the ") +
                                      (link ? "link " : "file ") + Quoted(above->first));
  }
  const auto there = files_.find(path);
  if (there != files_.end()) {
    const bool link = entry.kind == EntryKind::kFolder && !there->second.link.empty();
    return BadArchive(entry.path, link ? "its path leads through a link of that name"
                                       : "the path is there twice");
  }
  if (entry.kind == EntryKind::kFolder || !folders_.contains(path)) return Ok{};
  return BadArchive(entry.path, entry.kind == EntryKind::kLink
                                    ? "the path of another entry leads through this link"
                                    : "there is a folder of that name, too");
}

Result<Ok> ArchiveRules::Count(const ArchiveEntry& entry) {
  if (++entries_ > limits::kArchiveEntries) {
    return TooLarge(entry.path, "an archive has at most " +
                                    std::to_string(limits::kArchiveEntries) + " entries");
  }
  if (entry.size > limits::kArchive) bytes_ = limits::kArchive;
  bytes_ += kBlock + std::min(entry.size, limits::kArchive);
  if (bytes_ <= limits::kArchive) return Ok{};
  return TooLarge(entry.path, "with it the archive has more than 256 MiB");
}

void ArchiveRules::AddFolders(std::string_view path) {
  for (size_t end = path.rfind('/'); end != path.npos; end = path.rfind('/', end - 1)) {
    if (!folders_.emplace(path.substr(0, end)).second) return;
    if (end == 0) return;
  }
}

Result<std::string> ArchiveRules::Take(const ArchiveEntry& entry) {
  if (auto counted = Count(entry); !counted) return counted.error();
  Result<std::string> path = BelowTop(entry);
  if (!path) return path;
  if (auto sound = CheckKind(entry); !sound) return sound.error();
  if (path->empty()) return path;  // the top folder itself
  if (auto free = CheckPlace(entry, *path); !free) return free.error();
  if (files_.empty() && entry.kind != EntryKind::kFolder &&
      (*path != "package.yaml" || entry.kind != EntryKind::kFile)) {
    return BadArchive(entry.path, "the first file of a package is package.yaml");
  }
  AddFolders(*path);
  if (entry.kind == EntryKind::kFolder) {
    folders_.insert(*path);
    return std::string();
  }
  const bool link = entry.kind == EntryKind::kLink;
  files_[*path] = {.size = link ? 0 : entry.size,
                   .executable = !link && entry.executable,
                   .link = link ? entry.link : "",
                   .offset = entry.offset};
  return path;
}

Result<Ok> ArchiveRules::ExpectTop(const std::string& top) const {
  if (top == top_) return Ok{};
  return BadArchive(top_ + "/", "the manifest says that the top folder is " + Quoted(top + "/"));
}

Result<Ok> ArchiveRules::Finish() const {
  if (files_.empty()) return BadArchive("", "the archive has no package.yaml");
  for (const auto& [path, file] : files_) {
    if (file.link.empty() || !Follow(files_, path, file.link).out) continue;
    return BadArchive(top_ + "/" + path,
                      "the link's target " + Quoted(file.link) + " leads out of the package");
  }
  return Ok{};
}

std::optional<std::string> Resolved(const PackageFiles& files, std::string_view path) {
  Walk walk = Follow(files, "", path);
  if (walk.out || walk.endless) return std::nullopt;
  if (walk.path.empty() || files.contains(walk.path)) return walk.path;
  const auto below = files.lower_bound(walk.path + "/");
  if (below == files.end() || !below->first.starts_with(walk.path + "/")) return std::nullopt;
  return walk.path;
}

}  // namespace dfsmr
