// The figure of the README: where the server's CPU time goes, stage by stage, beside its floor.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/figures.h"
#include "tests/bench/report.h"

namespace dfsmr::bench {

class Drawing {
 public:
  // Two bars a case, both at the case's own scale.
  explicit Drawing(const std::vector<Outcome>& outcomes) {
    DrawLegend();
    for (const Outcome& outcome : outcomes) DrawCase(outcome);
  }

  void Save(const std::string& path) const {
    std::ofstream file(path);
    file << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\"" << y_
         << "\" font-family=\"sans-serif\" font-size=\"13\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
         << body_.str() << "</svg>\n";
    if (!file.flush()) throw std::runtime_error("cannot write to " + path);
  }

 private:
  static constexpr int kWidth = 860;
  static constexpr int kLeft = 60;   // where bars begin
  static constexpr int kLong = 660;  // the longest bar
  static constexpr int kBar = 18;
  // Told apart by those who see few colours, too (Okabe and Ito).
  static constexpr const char* kColours[] = {"#56b4e9", "#e69f00", "#f0e442",
                                             "#0072b2", "#009e73", "#999999"};
  static constexpr const char* kWaiting = "#e8e8e8";
  static_assert(std::size(kColours) == std::size(kStages));

  void DrawLegend() {
    Write(10, 20, "What a transition costs the server: CPU time by stage, and waiting for fsync",
          " font-weight=\"bold\"");
    int x = 10;
    for (std::size_t i = 0; i < std::size(kStages); ++i) {
      Fill(x, 32, 14, 14, kColours[i], kStages[i].name);
      Write(x + 20, 44, kStages[i].name);
      x += 110;
    }
    Fill(x, 32, 14, 14, kWaiting, "fsync");
    Write(x + 20, 44, "fsync");
    y_ = 60;
  }

  void DrawCase(const Outcome& outcome) {
    const double most = std::max(Length(outcome.subject), Length(outcome.other));
    if (most <= 0) return;
    char told[160];
    std::snprintf(told, sizeof(told),
                  "%s: %.0f/s; %.1f transitions in a commit, which takes %.2f ms",
                  outcome.load.name.c_str(), At(outcome.subject, "rate"),
                  At(outcome.subject, "items_per_commit"), At(outcome.subject, "commit_ms"));
    Write(10, y_ + 14, told);
    DrawBar(y_ + 20, "dsrv", outcome.subject, kLong / most);
    if (outcome.load.against_floor()) DrawBar(y_ + 42, "floor", outcome.other, kLong / most);
    y_ += 74;
  }

  void DrawBar(int y, const std::string& name, const Figures& figures, double scale) {
    Write(10, y + 14, name);
    double x = kLeft;
    for (std::size_t i = 0; i < std::size(kStages); ++i) {
      const double us = At(figures, kStages[i].figure);
      char told[80];
      std::snprintf(told, sizeof(told), "%s %.1f us", kStages[i].name, us);
      Fill(x, y, us * scale, kBar, kColours[i], told);
      x += us * scale;
    }
    const double wait_us = At(figures, "fsync_wait_us");
    char total[40];
    std::snprintf(total, sizeof(total), "%.1f + %.1f us", At(figures, "cpu_us"), wait_us);
    Fill(x, y, wait_us * scale, kBar, kWaiting, "fsync");
    Write(x + wait_us * scale + 6, y + 14, total);
  }

  static double Length(const Figures& figures) {
    return At(figures, "cpu_us") + At(figures, "fsync_wait_us");
  }

  void Write(double x, double y, const std::string& text, const std::string& style = "") {
    body_ << "<text x=\"" << x << "\" y=\"" << y << "\"" << style << ">" << text << "</text>\n";
  }
  void Fill(double x, double y, double width, double height, const char* colour,
            const std::string& title) {
    body_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
          << height << "\" fill=\"" << colour << "\"><title>" << title << "</title></rect>\n";
  }

  std::ostringstream body_;
  int y_ = 0;
};

}  // namespace dfsmr::bench
