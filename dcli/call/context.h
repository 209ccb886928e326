// What every command is given: the server, the streams to write to, and one way to fail.
#pragma once

#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "dcli/call/client.h"
#include "dcli/text/output.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

inline constexpr const char* kVersion = "1.0.0";

// Exit statuses, as promised.
inline constexpr int kSucceeded = 0;
inline constexpr int kRefused = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kUnreached = 3;
inline constexpr int kInterrupted = 130;

// The flags that stand before or after any command.
struct Globals {
  std::string server = "localhost:3004";
  std::string name_space;
  std::string output = "table";
  std::string timeout = "20s";
  bool no_color = false;
  Credentials credentials = CredentialsFromEnvironment();
};

class Context {
 public:
  Context(std::ostream& out_stream, std::ostream& err_stream) : out(out_stream), err(err_stream) {}

  // Sets everything by the flags; fails with a message when one of them is malformed.
  Result<Ok> Apply(const Globals& globals);

  std::ostream& out;
  std::ostream& err;
  OutputFormat format = OutputFormat::kTable;
  Look look;      // of standard output
  Look err_look;  // of standard error
  std::string name_space;
  std::string command;  // for hints: "start"
  std::unique_ptr<Client> client;
  bool incomplete = false;  // something could not be written as -o says: no success

  // Writes `message` as JSON or YAML, if -o says so, and returns true. False: the caller prints it
  // for people. What has no such form is said on standard error, and `incomplete` is set.
  bool Print(const google::protobuf::Message& message);
  // The same for one of several messages: YAML documents are separated.
  bool PrintOne(const google::protobuf::Message& message);
  bool wide() const { return format == OutputFormat::kWide; }
  bool names() const { return format == OutputFormat::kName; }

  // Prints what was wrong and what to do about it; returns `status`. `details` are whole lines.
  int Fail(int status, std::string_view message, std::string_view hint = "",
           std::string_view details = "");
  int FailUsage(const Error& error) { return Fail(kBadUsage, error.message); }
  // The same for an error of a call; the status says whether the server was reached. `hint`
  // replaces the one for the error's reason.
  int Fail(const Error& error, std::string_view hint = "");
  // A line for people on standard error, "dcli: " in front. Any thread.
  void Note(std::string_view message);
  // The same of several at once.
  void Note(std::span<const std::string> messages);
  // Shows `line` as the last line of the terminal behind standard error, in place of the one
  // before; notes go above it. An empty line removes it. Any thread.
  void Status(std::string_view line);

 private:
  void Wipe() REQUIRES(err_mutex_);
  void Draw() REQUIRES(err_mutex_);

  Mutex err_mutex_;
  std::string status_ GUARDED(err_mutex_);
};

// "someone@host", the name of the person in front of dcli.
std::string UserName();
// "host:pid", the name of a worker without --worker.
std::string WorkerName();

}  // namespace dfsmr::cli
