#include "fsm/package/worker.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fsm/base/fit.h"
#include "fsm/base/names.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kFileKeys = {"workers", "middleware"};
constexpr std::array<std::string_view, 20> kWorkerKeys = {
    "run",       "serves",  "env",         "secrets",   "directory", "requires",   "jobs",
    "mode",      "timeout", "kill_after",  "on_cancel", "exit",      "memory",     "cpu",
    "processes", "dry_run", "concurrency", "idle",      "tasks",     "description"};
constexpr std::string_view kAllWorkerKeys = "a worker has run, serves, env and how it is run";
constexpr std::array<std::string_view, 3> kSecretKeys = {"secret", "version", "file"};
constexpr std::array<std::string_view, 2> kModes = {"task", "serve"};
constexpr std::array<std::string_view, 2> kOnCancel = {"stop", "finish"};
constexpr std::array<std::string_view, 2> kDirectories = {"package", "task"};
constexpr size_t kMostVariables = 100;
constexpr int64_t kMostJobs = 1'000;
constexpr int64_t kMostProcesses = 1'000'000;
constexpr Duration kLongestKill = std::chrono::minutes(10);

// A program's word of a shell line: "" when it is not plain enough to be one for sure.
std::string FirstWord(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(" \t\n"), line.size());
  const size_t end = std::min(line.find_first_of(" \t\n", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  const bool plain = word.find_first_of("'\"\\$`;&|<>()*?[]#~={}!") == word.npos;
  return plain ? std::string(word) : "";
}

// Whether a line is one command and nothing more: then the shell becomes that command, so that
// signals and the exit status are its own.
bool IsOneCommand(std::string_view line, const std::string& first, const ProgramFinder& find) {
  static constexpr std::string_view kOwn[] = {
      "alias",    "bg",     "break", "cd",      "command", "continue", "echo",  "eval",
      "exec",     "exit",   "export", "false",  "fg",      "getopts",  "hash",  "jobs",
      "kill",     "local",  "printf", "pwd",    "read",    "readonly", "return", "set",
      "shift",    "source", "test",  "time",    "times",   "trap",     "true",  "type",
      "ulimit",   "umask",  "unalias", "unset", "wait",    "if",       "for",   "while",
      "until",    "case",   "function"};
  if (first.empty() || line.find_first_of(";|&()`\n") != line.npos) return false;
  if (first.find('/') != first.npos) return true;
  return std::ranges::find(kOwn, first) == std::end(kOwn) && find(first).has_value();
}

std::string ShellQuoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

class WorkerReader {
 public:
  explicit WorkerReader(const ProgramFinder& find) : find_(find) {}

  // A program and its arguments: a list, or a line for the shell.
  void ReadRun(const Field& field, std::vector<std::string>* to) {
    if (field.value.IsList()) return ReadArguments(field, to);
    std::string line;
    if (!ReadText(field, &line)) return;
    if (line.find_first_not_of(" \t\n") == line.npos) return field.Fail("there is no command");
    const std::string word = FirstWord(line);
    const bool one = IsOneCommand(line, word, find_);
    if (word.find('/') != word.npos) {
      const Result<std::string> program = find_(word);
      if (!program) return field.Fail(program.error().message);
      line.replace(line.find(word), word.size(), ShellQuoted(*program));
    }
    *to = {"/bin/sh", "-c", one ? "exec " + line : line};
  }

  Worker Read(const std::string& name, const Field& field) {
    Worker worker;
    worker.name = name;
    worker.at = field.key_at;
    if (!field.value.IsMap()) {
      worker.serves = {name};
      if (!field.value.IsList() && (!field.value.IsScalar() || field.value.IsNull())) {
        field.Fail("expected a command or {run: …}, not " + Describe(field.value));
      } else {
        ReadRun(field, &worker.run);
      }
      return worker;
    }
    const Keys keys(field, kWorkerKeys, kAllWorkerKeys);
    if (auto run = keys.Take("run")) {
      ReadRun(*run, &worker.run);
    } else {
      field.Fail("a worker needs run: COMMAND");
    }
    ReadServes(keys, &worker);
    ReadSurroundings(keys, &worker);
    ReadEnding(keys, &worker);
    ReadLimits(keys, &worker.limits);
    ReadMode(keys, &worker);
    return worker;
  }

 private:
  void ReadArguments(const Field& field, std::vector<std::string>* to) {
    std::vector<std::string> words(field.value.items.size());
    if (words.empty()) return field.Fail("there is no command");
    for (size_t i = 0; i < words.size(); ++i) {
      if (!ReadText(field.Item(i), &words[i])) return;
    }
    const Result<std::string> program = find_(words[0]);
    if (!program) return field.Item(0).Fail(program.error().message);
    words[0] = *program;
    *to = std::move(words);
  }

  void ReadServes(const Keys& keys, Worker* worker) {
    const auto field = keys.Take("serves");
    if (!field) {
      worker->serves = {worker->name};
      return;
    }
    const bool list = field->value.IsList();
    if (list && field->value.items.empty()) return field->Fail("the worker serves nothing");
    for (size_t i = 0; i < (list ? field->value.items.size() : 1); ++i) {
      const Field item = list ? field->Item(i) : *field;
      std::string pattern;
      if (!ReadText(item, &pattern)) continue;
      const auto problem = ActionPatternProblem(pattern);
      if (problem) {
        item.Fail(*problem + "; serves takes NAME, NAME.* and *");
      } else {
        worker->serves.push_back(pattern);
      }
    }
  }

  void ReadVariable(const Field& field, const std::string& name, Worker* worker) {
    const auto letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const bool sound = !name.empty() && letter(name[0]) && std::ranges::all_of(name, [&](char c) {
      return letter(c) || (c >= '0' && c <= '9');
    });
    if (!sound) return field.Fail("a variable is called by letters, digits and _, no digit first");
    if (name.starts_with("DFSMR_")) return field.Fail("DFSMR_… are the agent's own variables");
    std::string value;
    if (field.value.IsMap()) {
      const Keys keys(field, kSecretKeys, "a secret has secret, version and file");
      SecretVariable secret{.variable = name};
      int64_t version = 0;
      if (auto key = keys.Take("version")) ReadInteger(*key, 1, UINT32_MAX, &version);
      secret.version = static_cast<uint32_t>(version);
      if (auto key = keys.Take("file")) ReadBoolean(*key, &secret.file);
      const auto key = keys.Take("secret");
      if (!key) return field.Fail("expected text, or {secret: NAME}");
      if (ReadName(*key, "secret", &secret.secret)) worker->secret_env.push_back(secret);
    } else if (ReadText(field, &value)) {
      if (value.find('\0') != value.npos) return field.Fail("a value holds no zero byte");
      worker->env.push_back(name + "=" + value);
    }
  }

  void ReadSecrets(const Field& field, Worker* worker) {
    if (!field.value.IsList()) {
      return field.Fail("expected a list of names and patterns, not " + Describe(field.value));
    }
    for (size_t i = 0; i < field.value.items.size(); ++i) {
      const Field item = field.Item(i);
      std::string pattern;
      if (!ReadText(item, &pattern)) continue;
      if (const auto problem = SecretPatternProblem(pattern)) {
        item.Fail(*problem);
      } else {
        worker->secrets.push_back(pattern);
      }
    }
  }

  // What the command finds when it begins.
  void ReadSurroundings(const Keys& keys, Worker* worker) {
    if (auto env = keys.Take("env"); env && ReadMap(*env, "{LEVEL: info}")) {
      if (env->value.entries.size() > kMostVariables) env->Fail("at most 100 variables");
      for (const YamlEntry& entry : env->value.entries) {
        ReadVariable(env->Below(entry), entry.key, worker);
      }
    }
    if (auto secrets = keys.Take("secrets")) ReadSecrets(*secrets, worker);
    size_t directory = 0;
    if (auto key = keys.Take("directory")) ReadWord(*key, kDirectories, &directory);
    worker->own_directory = directory == 1;
    if (auto key = keys.Take("requires")) ReadNames(*key, "capability", &worker->required);
    int64_t jobs = 0;
    if (auto key = keys.Take("jobs")) ReadInteger(*key, 1, kMostJobs, &jobs);
    worker->jobs = static_cast<uint32_t>(jobs);
    if (auto key = keys.Take("dry_run")) ReadBoolean(*key, &worker->dry_run);
  }

  void ReadEnding(const Keys& keys, Worker* worker) {
    Duration timeout{};
    if (auto key = keys.Take("timeout"); key && ReadDurationAboveZero(*key, &timeout)) {
      worker->timeout = timeout;
    }
    if (auto key = keys.Take("kill_after");
        key && ReadDuration(*key, &worker->kill_after) && worker->kill_after > kLongestKill) {
      key->Fail("kill_after is at most 10m");
    }
    size_t on_cancel = 0;
    if (auto key = keys.Take("on_cancel")) ReadWord(*key, kOnCancel, &on_cancel);
    worker->finish = on_cancel == 1;
    auto exits = keys.Take("exit");
    if (!exits || !ReadMap(*exits, "{3: missing}")) return;
    for (const YamlEntry& entry : exits->value.entries) {
      const Field field = exits->Below(entry);
      int status = 0;
      const char* end = entry.key.data() + entry.key.size();
      const auto read = std::from_chars(entry.key.data(), end, status);
      std::string transition;
      if (read.ec != std::errc() || read.ptr != end || status < 1 || status > 255) {
        field.Fail("an exit status is from 1 to 255");
      } else if (ReadName(field, "transition", &transition)) {
        worker->exits[status] = transition;
      }
    }
  }

  void ReadLimits(const Keys& keys, ProcessLimits* limits) {
    if (auto key = keys.Take("memory")) ReadSize(*key, limits);
    double cpu = 0;
    if (auto key = keys.Take("cpu"); key && ReadNumber(*key, "a number of processors", &cpu)) {
      if (cpu < 0.01 || cpu > 10'000) {
        key->Fail("cpu is from 0.01 to 10000 processors");
      } else {
        limits->cpu = cpu;
      }
    }
    int64_t processes = 0;
    if (auto key = keys.Take("processes");
        key && ReadInteger(*key, 1, kMostProcesses, &processes)) {
      limits->processes = static_cast<uint32_t>(processes);
    }
  }

  void ReadSize(const Field& field, ProcessLimits* limits) {
    static constexpr std::pair<std::string_view, int> kUnits[] = {
        {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    const std::string& text = field.value.text;
    uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (field.value.IsScalar() && read.ec == std::errc() && number > 0) {
      for (const auto& [unit, shift] : kUnits) {
        if (std::string_view(read.ptr, static_cast<size_t>(end - read.ptr)) != unit) continue;
        if (number > UINT64_MAX >> (shift + 1)) continue;
        limits->memory = number << shift;
        return;
      }
    }
    field.Fail("expected a size such as 512MiB or 2GiB, not " + Describe(field.value));
  }

  void ReadMode(const Keys& keys, Worker* worker) {
    size_t mode = 0;
    if (auto key = keys.Take("mode")) ReadWord(*key, kModes, &mode);
    worker->serve = mode == 1;
    for (const std::string_view name : {"concurrency", "idle", "tasks"}) {
      const auto key = keys.Take(name);
      if (!key) continue;
      if (!worker->serve) key->Fail(std::string(name) + " is for workers of mode: serve");
      int64_t number = 0;
      if (name == "idle") {
        ReadDurationAboveZero(*key, &worker->idle);
      } else if (name == "concurrency" && ReadInteger(*key, 1, kMostJobs, &number)) {
        worker->concurrency = static_cast<uint32_t>(number);
      } else if (name == "tasks" && ReadInteger(*key, 1, INT32_MAX, &number)) {
        worker->tasks = static_cast<uint32_t>(number);
      }
    }
  }

  const ProgramFinder& find_;
};

// The same pattern twice would be a tie.
void CheckTies(const std::vector<Worker>& workers, Reporter* reporter) {
  std::map<std::string, std::string> by_pattern;
  for (const Worker& worker : workers) {
    for (const std::string& pattern : worker.serves) {
      const auto [other, fresh] = by_pattern.emplace(pattern, worker.name);
      if (fresh) continue;
      const std::string also =
          other->second == worker.name ? "twice" : "by " + other->second + ", too";
      reporter->Error(worker.at, "workers." + worker.name + ".serves",
                      Quoted(pattern) + " is served " + also);
    }
  }
}

void ReadFile(const YamlNode& root, const ProgramFinder& find, Reporter* reporter,
              WorkersFile* to) {
  const Field whole(root, "", reporter);
  if (!root.IsMap()) return whole.Fail("expected workers: {NAME: {run: COMMAND}}");
  const Keys keys(whole, kFileKeys, "a file of workers has workers and middleware");
  const auto workers = keys.Take("workers");
  if (!workers) return whole.Fail("there is no workers: {NAME: {run: COMMAND}}");
  to->workers = ReadWorkers(*workers, find);
  if (workers->value.IsMap() && workers->value.entries.empty()) workers->Fail("there is no worker");
  if (const auto middleware = keys.Take("middleware")) {
    to->middleware = ReadMiddleware(*middleware, find);
  }
}

}  // namespace

std::vector<Worker> ReadWorkers(const Field& field, const ProgramFinder& find) {
  std::vector<Worker> workers;
  if (!ReadMap(field, "{site.build: ./build.sh}")) return workers;
  WorkerReader reader(find);
  for (const YamlEntry& entry : field.value.entries) {
    const Field one = field.Below(entry);
    if (const auto problem = NameProblem("worker", entry.key)) one.Fail(*problem);
    workers.push_back(reader.Read(entry.key, one));
  }
  CheckTies(workers, field.reporter);
  return workers;
}

std::map<std::string, std::vector<std::string>> ReadMiddleware(const Field& field,
                                                               const ProgramFinder& find) {
  std::map<std::string, std::vector<std::string>> read;
  if (!ReadMap(field, "{audit: ./audit.sh}")) return read;
  WorkerReader reader(find);
  for (const YamlEntry& entry : field.value.entries) {
    const Field one = field.Below(entry);
    if (const auto problem = NameProblem("middleware", entry.key)) one.Fail(*problem);
    std::vector<std::string>& command = read[entry.key];
    reader.ReadRun(one, &command);
    // What is wrapped comes behind it: for a line of the shell, as its arguments.
    if (!one.value.IsList() && command.size() == 3) {
      command.back() += " \"$@\"";
      command.push_back(entry.key);
    }
  }
  return read;
}

void ReadCommand(const Field& field, const ProgramFinder& find, std::vector<std::string>* to) {
  WorkerReader(find).ReadRun(field, to);
}

WorkersFile ParseWorkersFile(std::string_view text, std::string_view source_name,
                             const ProgramFinder& find, std::vector<Diagnostic>* diagnostics) {
  Reporter reporter(source_name);
  const YamlTree tree = ReadYaml(text, &reporter);
  WorkersFile file;
  if (tree.documents.empty()) {
    Reporter empty(source_name);
    empty.Error({1, 1}, "workers", "the file is empty; it needs workers: {NAME: {run: COMMAND}}");
    *diagnostics = std::move(empty).Take();
    return file;
  }
  for (const YamlDocument& document : tree.documents) {
    if (document.root == nullptr) continue;
    if (&document != &tree.documents.front()) {
      reporter.Error(document.root->at, "", "a file of workers is one document");
      break;
    }
    ReadFile(*document.root, find, &reporter, &file);
  }
  *diagnostics = std::move(reporter).Take();
  return file;
}

std::optional<std::string> ActionPatternProblem(std::string_view pattern) {
  if (pattern == "*") return std::nullopt;
  if (pattern.ends_with(".*")) pattern.remove_suffix(2);
  return NameProblem("action", pattern);
}

const Worker* Serving(const std::vector<Worker>& workers, std::string_view action) {
  const Worker* best = nullptr;
  size_t best_fit = 0;
  for (const Worker& worker : workers) {
    for (const std::string& pattern : worker.serves) {
      const size_t fit = Fit(pattern, action);
      if (fit > best_fit) {
        best = &worker;
        best_fit = fit;
      }
    }
  }
  return best;
}

bool MayRead(const Worker& worker, std::string_view secret) {
  return Allowed(worker.secrets, secret) ||
         std::ranges::any_of(worker.secret_env, [&](const SecretVariable& variable) {
           return variable.secret == secret;
         });
}

std::vector<std::string> SecretsOf(const Worker& worker) {
  std::vector<std::string> secrets = worker.secrets;
  for (const SecretVariable& variable : worker.secret_env) secrets.push_back(variable.secret);
  std::ranges::sort(secrets);
  secrets.erase(std::unique(secrets.begin(), secrets.end()), secrets.end());
  return secrets;
}

}  // namespace dfsmr
