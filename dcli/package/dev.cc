// `dcli package dev`: the inner loop. Folders are brought in line with the server whenever they
// change, with an agent for them in the same process.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "dcli/agent/beside.h"
#include "dcli/call/packages.h"
#include "dcli/package/package.h"
#include "dcli/package/registry.h"
#include "dcli/package/subject.h"
#include "dcli/package/watch.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "fsm/package/version.h"
#include "storage/archive/files.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kUntilChange{3'600'000};
constexpr milliseconds kUntilServer{1'000};

// What was seen of a place, so that the same is not done again.
struct SeenPlace {
  std::string content;  // its digest, or why it cannot be read
  bool done = false;    // false: the server was not reached
};

// What was active before, so that it can be again.
struct BeforeDev {
  std::string version;  // empty: none was
  std::string now;      // that is active by us
  int activations = 0;
};

std::string HexOfDigest(const std::string& digest) { return digest.substr(digest.find(':') + 1); }

std::string TookText(steady_clock::time_point begun) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fs",
                std::chrono::duration<double>(steady_clock::now() - begun).count());
  return text;
}

Result<std::string> DigestOfFolder(const Subject& subject, const std::string& top) {
  ArchiveHasher hasher;
  const auto hashed = WriteArchive(subject.name, subject.files, top, subject.manifest,
                                   [&hasher](std::string_view bytes) -> Result<Ok> {
                                     hasher.Add(bytes);
                                     return Ok{};
                                   });
  if (!hashed) return hashed.error();
  return hasher.Take().Digest();
}

// "2 of 6 documents changed".
std::string ChangesText(const v1::ActivatePackageResponse& done) {
  size_t changed = 0;
  for (const v1::DocumentChange& one : done.documents()) {
    if (one.what() != v1::DocumentChange::SAME) ++changed;
  }
  if (changed == 0) return "the documents are the same";
  return std::to_string(changed) + " of " + std::to_string(done.documents_size()) +
         " documents changed";
}

class Developer {
 public:
  // `agent`: null without one.
  Developer(Context& context, const PackageOptions& options, AgentBeside* agent)
      : context_(context), options_(options), agent_(agent) {}

  ~Developer() {
    std::error_code ignored;
    if (!scratch_.empty()) fs::remove_all(scratch_, ignored);
  }
  Developer(const Developer&) = delete;
  Developer& operator=(const Developer&) = delete;

  // Until it is cancelled.
  void Run(const Canceller& canceller);
  // How to go back, a line for each package.
  std::vector<std::string> Rollbacks() const;

 private:
  void Round();
  void BringFolder(const std::string& place);
  void Note(const std::string& text);
  void Complain(const std::string& lines);
  std::string WhatStays(const std::string& package) const;
  Result<std::string> Write(const Subject& subject, const std::string& top);
  void BringArchives(const std::vector<std::string>& places);
  bool Activate(const std::string& place, const std::string& path, steady_clock::time_point begun);
  void RemoveIdle(const std::string& package);
  bool Failed(const std::string& place, const Error& error);
  bool IsNew(const std::string& place, const std::string& content);
  void ServeNames();
  void Say(const std::string& line);
  Result<std::string> Scratch();

  Context& context_;
  const PackageOptions& options_;
  AgentBeside* const agent_;
  std::map<std::string, SeenPlace> seen_;
  std::map<std::string, BeforeDev> before_;  // by package
  std::set<std::string> names_;
  bool away_ = false;  // the server was not reached in this round
  bool told_away_ = false;
  bool told_empty_ = false;
  std::string scratch_;
};

void Developer::Say(const std::string& line) {
  if (agent_ != nullptr) return agent_->Print(line);
  context_.out << line << '\n' << std::flush;
}

void Developer::Note(const std::string& text) { Complain("dcli: " + Escaped(text) + "\n"); }

void Developer::Complain(const std::string& lines) {
  if (lines.empty()) return;
  if (agent_ != nullptr) return agent_->PrintError(lines);
  context_.err << lines << std::flush;
}

Result<std::string> Developer::Scratch() {
  if (!scratch_.empty()) return scratch_;
  std::string folder = (fs::temp_directory_path() / "dcli-dev-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return Error{Code::kUnavailable, Reason::kNone, "no folder can be made in " + folder};
  }
  return scratch_ = folder;
}

void Developer::Run(const Canceller& canceller) {
  FolderWatch watch(options_.places, options_.poll, [this](const std::string& why) { Note(why); });
  do {
    away_ = false;
    Round();
    if (!away_) told_away_ = false;
  } while (watch.Await(canceller, away_ ? kUntilServer : kUntilChange));
}

void Developer::Round() {
  std::vector<std::string> folders;
  std::vector<std::string> archives;
  for (const std::string& place : options_.places) {
    std::error_code error;
    if (fs::exists(fs::path(place) / kManifestName, error)) {
      folders.push_back(place);
      continue;
    }
    for (const auto& one : fs::directory_iterator(place, error)) {
      std::error_code ignored;
      const std::string path = one.path().string();
      if (one.is_regular_file(ignored) && path.ends_with(".dfsmr")) archives.push_back(path);
      if (fs::exists(one.path() / kManifestName, ignored)) folders.push_back(path);
    }
  }
  std::ranges::sort(folders);
  std::ranges::sort(archives);
  if (folders.empty() && archives.empty() && !std::exchange(told_empty_, true)) {
    Note("there is no package in " + Join(options_.places, ", ") + " yet");
  }
  for (const std::string& place : folders) BringFolder(place);
  BringArchives(archives);
}

// False: it was brought before, as it is.
bool Developer::IsNew(const std::string& place, const std::string& content) {
  SeenPlace& seen = seen_[place];
  if (seen.done && seen.content == content) return false;
  seen = {.content = content, .done = true};
  return true;
}

// Says why; true: another try makes sense.
bool Developer::Failed(const std::string& place, const Error& error) {
  if (!Passing(error)) {
    const std::string reason =
        error.reason == Reason::kNone ? "" : std::string(Name(error.reason)) + ": ";
    Note(place + ": " + reason + error.message);
    return false;
  }
  away_ = true;
  seen_[place].done = false;
  if (!std::exchange(told_away_, true)) {
    Note("no server at " + context_.client->server() + ": " + Cause(error) + "; trying again");
  }
  return true;
}

void Developer::BringFolder(const std::string& place) {
  const auto begun = steady_clock::now();
  auto subject = OpenSubject(place);
  if (!subject) {
    if (IsNew(place, subject.error().message)) Note(subject.error().message);
    return;
  }
  std::vector<Diagnostic> ignored;
  const auto manifest = ParseManifest(subject->manifest, kManifestName, AnyProgram, &ignored);
  const auto digest = DigestOfFolder(*subject, manifest ? manifest->Top() : "NAME-VERSION");
  if (!digest) {  // it is being written: there is another event to come
    if (IsNew(place, digest.error().message)) Note(digest.error().message);
    return;
  }
  if (!IsNew(place, *digest)) return;
  if (manifest) {
    const auto text =
        WithVersion(subject->manifest, DevVersion(manifest->version, HexOfDigest(*digest)));
    if (!text) return Note(place + ": " + text.error().message);
    subject->manifest = *text;
    subject->files[std::string(kManifestName)].size = text->size();
  }
  const auto checked = CheckSubject(*subject);
  if (!checked) return (void)Failed(place, checked.error());
  Complain(LinesOf(checked->diagnostics));
  if (!checked->ok()) {
    return Note(place + " does not check: " +
                (manifest ? WhatStays(manifest->package) : "nothing is activated"));
  }
  const auto path = Write(*subject, checked->manifest->Top());
  if (!path) {
    seen_[place].done = false;
    return Note(path.error().message);
  }
  if (Activate(place, *path, begun)) RemoveIdle(checked->manifest->package);
}

std::string Developer::WhatStays(const std::string& package) const {
  const auto active = before_.find(package);
  if (active == before_.end()) return "nothing is activated";
  return package + "@" + active->second.now + " stays active";
}

// The archive, as a file that the next one replaces.
Result<std::string> Developer::Write(const Subject& subject, const std::string& top) {
  const auto folder = Scratch();
  if (!folder) return folder.error();
  const std::string path = *folder + "/package.dfsmr";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto written = WriteArchive(subject.name, subject.files, top, subject.manifest,
                                    [&file](std::string_view bytes) -> Result<Ok> {
                                      file << bytes;
                                      return Ok{};
                                    });
  file.close();
  if (!written) return written.error();
  if (file) return path;
  return Error{Code::kUnavailable, Reason::kNone, "cannot write " + path};
}

// Of each package the newest version is to be active.
void Developer::BringArchives(const std::vector<std::string>& places) {
  struct Newest {
    std::string place;
    std::string version;
  };
  std::map<std::string, Newest> newest;  // by package
  std::map<std::string, std::string> contents;
  for (const std::string& place : places) {
    const auto archive = ReadArchive(place);
    std::vector<Diagnostic> ignored;
    const auto manifest =
        archive ? ParseManifest(archive->manifest, kManifestName, AnyProgram, &ignored)
                : std::optional<Manifest>();
    if (!manifest) {
      const std::string why = archive ? "its manifest is wrong" : archive.error().message;
      if (IsNew(place, why)) Note(place + ": " + why);
      continue;
    }
    std::error_code ignored_too;
    contents[place] =
        std::to_string(fs::file_size(place, ignored_too)) + " " +
        std::to_string(fs::last_write_time(place, ignored_too).time_since_epoch().count()) +
        (fs::exists(place + ".sig", ignored_too) ? " signed" : "");
    Newest& of = newest[manifest->package];
    if (of.place.empty() || CompareVersions(of.version, manifest->version) < 0) {
      of = {place, manifest->version};
    }
  }
  std::set<std::string> newest_places;
  for (const auto& [package, of] : newest) newest_places.insert(of.place);
  for (const auto& [place, content] : contents) {
    const bool is_newest = newest_places.contains(place);
    if (!IsNew(place, content + (is_newest ? " newest" : ""))) continue;
    if (is_newest) {
      Activate(place, place, steady_clock::now());
    } else if (const auto put = registry_words::Push(context_, place, false); !put) {
      Failed(place, put.error());
    } else {
      Say(put->package().package() + "@" + put->package().version() + " is pushed");
    }
  }
}

// Pushes the archive and activates it. False: it did not work, and that was said.
bool Developer::Activate(const std::string& place, const std::string& path,
                         steady_clock::time_point begun) {
  const auto put = registry_words::Push(context_, path, false);
  if (!put) {
    Failed(place, put.error());
    return false;
  }
  const v1::PackageVersion& version = put->package();
  names_.insert(version.package());
  ServeNames();
  v1::ActivatePackageRequest request;
  request.set_namespace_(context_.name_space);
  request.set_package(version.package());
  request.set_version(version.version());
  request.set_adopt(options_.adopt);
  request.set_force(options_.force);
  request.set_note("dcli package dev");
  const auto done = context_.client->packages().ActivatePackage(request);
  if (!done) {
    Failed(place, done.error());
    return false;
  }
  const auto [before, is_first] = before_.try_emplace(version.package());
  if (is_first) before->second.version = done->changed() ? done->previous() : version.version();
  if (done->changed()) ++before->second.activations;
  before->second.now = version.version();
  Say(version.package() + "@" + version.version() + " is active: " +
      (done->changed() ? ChangesText(*done) : std::string("as before")) + ", " + TookText(begun));
  return true;
}

// Versions of ours that are not used any more. What cannot be removed now can be next time.
void Developer::RemoveIdle(const std::string& package) {
  const BeforeDev& before = before_.at(package);
  v1::ListPackagesRequest request;
  request.set_namespace_(context_.name_space);
  request.set_package(package);
  const auto all = context_.client->packages().ListPackages(request);
  if (!all) return;
  for (const v1::PackageVersion& one : all->packages()) {
    const bool ours = IsDevVersion(one.version()) && one.version() != before.version;
    if (!ours || one.state() != v1::PackageVersion::IDLE) continue;
    v1::RemovePackageRequest remove;
    remove.set_namespace_(context_.name_space);
    remove.set_package(package);
    remove.set_version(one.version());
    (void)context_.client->packages().RemovePackage(remove);
  }
}

void Developer::ServeNames() {
  if (agent_ != nullptr) agent_->Serve({names_.begin(), names_.end()});
}

std::vector<std::string> Developer::Rollbacks() const {
  std::vector<std::string> lines;
  const std::string space =
      context_.name_space.empty() ? "" : " --namespace " + context_.name_space;
  for (const auto& [package, before] : before_) {
    const std::string now = package + "@" + before.now;
    if (before.activations == 0 || before.version == before.now) {
      lines.push_back(now + " stays active");
      continue;
    }
    const std::string back = before.version.empty() ? "deactivate " + package
                             : before.activations == 1
                                 ? "rollback " + package
                                 : "activate " + package + "@" + before.version;
    lines.push_back(now + " stays active; rollback: dcli package " + back + space);
  }
  return lines;
}

int DevelopAlone(Context& context, const PackageOptions& options) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  Developer developer(context, options, nullptr);
  developer.Run(canceller);
  for (const std::string& line : developer.Rollbacks()) context.out << line << '\n';
  return kSucceeded;
}

}  // namespace

int DevelopPackages(Context& context, const PackageOptions& options) {
  for (const std::string& place : options.places) {
    std::error_code ignored;
    if (!fs::is_directory(place, ignored)) {
      return context.Fail(kBadUsage, place + " is no folder", "dcli package dev FOLDER...");
    }
  }
  if (options.no_agent) return DevelopAlone(context, options);
  AgentOptions agent;
  agent.name = "dev-" + std::to_string(getpid());
  agent.print = true;
  agent.grace = "3s";
  agent.env_file = options.env_file;
  std::vector<std::string> rollbacks;
  const int status = ServeBeside(context, agent, [&](AgentBeside& beside, const Canceller& until) {
    Developer developer(context, options, &beside);
    developer.Run(until);
    rollbacks = developer.Rollbacks();
  });
  for (const std::string& line : rollbacks) context.out << line << '\n';
  return status;
}

}  // namespace dfsmr::cli
