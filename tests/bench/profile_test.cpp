// The output of profiling tools, converted to numbers and sentences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/profile/kernel_words.h"
#include "bench/profile/ncu_csv.h"
#include "bench/profile/plain_call.h"
#include "bench/profile/profile_tools.h"
#include "core/error.h"

namespace fk {
namespace {

// Written by hand like the output of ncu 2025.3: quoted fields, a row of units, thousands with commas, names with
// commas.
constexpr std::string_view kRecorded = R"csv(==PROF== Connected to process 4711 (/usr/local/bin/fastkernels)
==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","Block Size","gpu__time_duration.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","lts__throughput.avg.pct_of_peak_sustained_elapsed","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","sm__warps_active.avg.pct_of_peak_sustained_active","sm__maximum_warps_per_active_cycle_pct","launch__occupancy_limit_registers","launch__occupancy_limit_shared_mem","launch__occupancy_limit_warps","launch__waves_per_multiprocessor","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum","l1tex__data_pipe_lsu_wavefronts_mem_shared.sum","l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum","smsp__sass_average_data_bytes_per_sector_mem_local_op_ld.max_rate","dram__bytes_read.sum","launch__registers_per_thread","launch__grid_size","launch__block_size"
"","","","","us","%","%","%","%","%","%","block","block","block","","inst","inst","inst","byte","","","Kbyte","byte/sector","Mbyte","register/thread","",""
"0","4711","void norm<fk::bf16, 2>(const T1 *, int)","(256, 1, 1)","12.50","91.20","55.00","20.10","0.00","85.00","100.00","8","32","8","7.75","9.10","1.20","1.00","32.00","0","0","0","32.000000","1,234.50","32","8,192","256"
"1","4711","slow_rows(float *, long)","(64, 1, 1)","250","12.0","14.0","9.0","0","21.5","25.0","4","16","32","0.12","3.10","6.40","1.00","8.00","500","1000","64","32.000000","2.00","128","16","64"
)csv";

const ProfiledKernel& kernel(size_t i) {
  static const std::vector<ProfiledKernel> all = parse_ncu_csv(kRecorded);
  return all.at(i);
}

bool says(const std::vector<std::string>& lines, std::string_view words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

TEST(NcuCsv, ReadsNamesUnitsAndNumbers) {
  EXPECT_EQ(kernel(0).name, "void norm<fk::bf16, 2>(const T1 *, int)");
  EXPECT_DOUBLE_EQ(kernel(0).seconds(), 12.5e-6);
  EXPECT_DOUBLE_EQ(*kernel(0).metric("dram__bytes_read.sum"), 1234.5e6);
  EXPECT_DOUBLE_EQ(*kernel(1).metric("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum"), 64e3);
  EXPECT_DOUBLE_EQ(*kernel(0).metric("launch__grid_size"), 8192);
  EXPECT_FALSE(kernel(0).metric("Block Size"));
  EXPECT_DOUBLE_EQ(*kernel(1).largest({"occupancy_limit"}), 32);
}

TEST(NcuCsv, SaysWhatIsNoTable) {
  EXPECT_THROW(parse_ncu_csv(""), Error);
  EXPECT_THROW(parse_ncu_csv("==ERROR== The application returned an error code (1).\n"), Error);
  std::string header(kRecorded.substr(0, kRecorded.find("\"0\",")));
  EXPECT_THROW(parse_ncu_csv(header), Error);
  // A truncated text gives a table with fewer kernels or none.
  for (size_t n = 0; n < kRecorded.size(); n += 97) try {
      EXPECT_LE(parse_ncu_csv(kRecorded.substr(0, n)).size(), 2u);
    } catch (const Error&) {
    }
}

TEST(KernelWords, AKernelAtTheRoof) {
  std::vector<std::string> lines = describe_kernel(kernel(0));
  EXPECT_TRUE(says(lines, "DRAM runs at 91 %")) << fmt::format("{}", lines.size());
  EXPECT_TRUE(says(lines, "loads from memory"));
  EXPECT_FALSE(says(lines, "spills"));
  EXPECT_FALSE(says(lines, "bank"));
}

TEST(KernelWords, AKernelWithEverythingWrong) {
  std::vector<std::string> lines = describe_kernel(kernel(1));
  EXPECT_TRUE(says(lines, "latency limits it"));
  EXPECT_TRUE(says(lines, "fill 12 % of the GPU"));
  EXPECT_TRUE(says(lines, "limited by registers"));
  EXPECT_TRUE(says(lines, "__syncthreads"));
  EXPECT_TRUE(says(lines, "it uses 25 %"));
  EXPECT_TRUE(says(lines, "50 % of its shared memory accesses"));
  EXPECT_TRUE(says(lines, "spills"));
}

TEST(KernelWords, SpillsAreNotOtherVariablesInMemoryWhereNcuTellsThem) {
  ProfiledKernel k = kernel(1);
  k.metrics["sass__inst_executed_register_spilling"] = 0;
  EXPECT_FALSE(says(describe_kernel(k), "spills"));
  k.metrics["sass__inst_executed_register_spilling"] = 12;
  EXPECT_TRUE(says(describe_kernel(k), "spills"));
}

TEST(KernelWords, ShortNames) {
  for (const char* name :
       {"void unnamed>::norm_rows<__nv_bfloat16, 8, 1, 1>(unnamed>::Call<T1>, unsigned int)",
        "void fk::cuda::<unnamed>::norm_rows<float>(float *)", "(anonymous namespace)::norm_rows(int)",
        "norm_rows(int)", "void norm_rows<T1>(T1)", "norm_rows"})
    EXPECT_EQ(short_name({name, {}}), "norm_rows") << name;
}

TEST(KernelWords, ABlockTooFewIsLimitedByNothingElse) {
  ProfiledKernel k = kernel(1);
  k.metrics["sm__maximum_warps_per_active_cycle_pct"] = 100;
  EXPECT_TRUE(says(describe_kernel(k), "(100 % could be)."));
}

TEST(KernelWords, NothingMeasuredNothingSaid) {
  EXPECT_TRUE(describe_kernel({}).empty());
  for (const KernelNumber& n : kernel_numbers({})) EXPECT_EQ(n.text, n.name == "time" ? "0.00 us" : "-") << n.name;
}

TEST(PerfCsv, ReadsCountsAndSaysWhenThereAreNone) {
  PerfCounts counts = parse_perf_csv(
      "2000000,,instructions:u,1000,100.00,,\n1000000,,cycles:u,1000,100.00,,\n"
      "<not supported>,,cache-misses,0,100.00,,\n");
  EXPECT_DOUBLE_EQ(counts.count("instructions"), 2e6);
  EXPECT_DOUBLE_EQ(counts.count("cache-misses"), 0);
  EXPECT_TRUE(says(describe(counts), "2.00 instructions a cycle"));
  EXPECT_FALSE(parse_perf_csv("<not supported>,,cycles,0,0,,\n").problem.empty());
}

TEST(Instructions, AreCountedByKind) {
  InstructionMix mix = count_instructions(
      "0000000000001130 <f>:\n    1130:\tvaddps %ymm1,%ymm0,%ymm0\n    1134:\tvmulss %xmm1,%xmm0,%xmm0\n"
      "    1138:\tjne    1130 <f>\n    113a:\tjmp    1130 <f>\n    113c:\tvfmadd231ps %zmm1,%zmm2,%zmm0\n    "
      "1142:\tret\n");
  EXPECT_EQ(mix.all, 6);
  EXPECT_EQ(mix.vector, 2);
  EXPECT_EQ(mix.scalar, 1);
  EXPECT_EQ(mix.branches, 1);
  EXPECT_EQ(mix.widest_bits, 512);
  EXPECT_TRUE(says(describe(mix), "67 %"));
  EXPECT_TRUE(says(describe(InstructionMix{}), "no floating point"));
}

TEST(PlainCall, RunsEveryOperatorOfAModel) {
  for (const char* op : {"rms_norm", "store_kvcache", "flash_attn_decode", "llama_mlp"}) {
    const OperatorInfo& info = Registry::instance().at(op);
    OperatorInfo::ErasedCase which = info.cases().front();
    Scenario scenario{.op = op, .name = "a case", .init = which.init, .workload = which.workload};
    PlainCall call(scenario, kCpu, 1, 3);
    call.run();
    EXPECT_GT(call.median_ns(3), 0) << op;
    EXPECT_NE(call.implementation(), "") << op;
  }
}

}  // namespace
}  // namespace fk
