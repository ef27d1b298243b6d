// report: one run as a page to read or send, and its charts as files.
#include <fmt/format.h>

#include <filesystem>

#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/output_file.h"
#include "web/web.h"

namespace fk {
namespace {

class Report final : public Verb {
 public:
  Report()
      : Verb("report", "Write one run as a self-contained page, with charts",
             {"fastkernels report", "fastkernels report --run 20261115-0732 --out rms_norm.html",
              "fastkernels report --svg --png"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--db", database_, "The history to read [that of `fastkernels history`]").type_name("FILE");
    flags.option("--run", run_, "Which run: its id, the beginning or end of it, or last")
        .type_name("ID")
        .show_default();
    flags.option("--out", out_, "Where to write it [report_<run>.html]").type_name("FILE.html");
    flags.flag("--svg", svg_, "Also write each chart as an SVG beside it (needs Chromium)");
    flags.flag("--png", png_, "Also write each chart as a PNG beside it (needs Chromium)");
  }

  void run(const CommonOptions& common) override {
    if (std::string why = web_unavailable(); !why.empty()) throw Error("{}", why);
    if ((svg_ || png_) && is_special_file(out_))
      throw UsageError("--svg and --png write beside --out and read it; {} is not a regular file, name one", out_);
    check_output_path(out_);
    std::unique_ptr<StoreReader> store = open_store_reader(database_);
    std::string id = store->resolve_run(run_);
    std::string path = out_.empty() ? "report_" + id + ".html" : out_;
    std::string page = report_file(*store, id);
    Table files({{"file", "file"}, {"size_bytes", "bytes"}});
    auto keep = [&](const std::string& name, std::string_view bytes) {
      write_file(name, bytes);
      files.add_row({name, bytes.size()});
    };
    keep(path, page);
    if (svg_ || png_) {
      std::vector<ChartFile> charts;
      try {
        charts = draw_charts(path, id, png_);
      } catch (const Error&) {
        files.print(common);  // the page was written anyway
        throw;
      }
      std::filesystem::path stem = std::filesystem::path(path).replace_extension();
      for (const ChartFile& chart : charts) {
        std::string name = fmt::format("{}-{}", stem.string(), chart.name);
        if (svg_) keep(name + ".svg", chart.svg);
        if (png_) keep(name + ".png", chart.png);
      }
    }
    files.print(common);
  }

 private:
  std::string database_, run_ = "last", out_;
  bool svg_ = false, png_ = false;
};

Report report_verb;

}  // namespace
}  // namespace fk
