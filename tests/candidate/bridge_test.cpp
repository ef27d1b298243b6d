// A candidate inside this process: constructor arguments, weights, errors, refusals and counters are passed through the
// C interface.
#include "candidate/bridge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "candidate/load.h"
#include "candidate/operators_header.h"
#include "candidate/stubs.h"
#include "candidate/swap.h"
#include "core/error.h"
#include "tests/candidate/work_folder.h"
#include "tests/engine/generate.h"

namespace fk {
namespace {

class Bridge : public testing::Test {
 protected:
  Bridge() : pool_(2) {}

  std::shared_ptr<const ForeignKernel> kernel(const std::string& op, const std::string& text) {
    CandidateFile file = folder_.candidate(op, text);
    CompileResult result = compile_candidate(file, folder_.options());
    if (result.failure) throw Error(result.failure->sentence + "\n" + result.log);
    return load_candidate(result.so_path, *file.op);
  }
  // A candidate of `op` with these members and this body of forward.
  static std::string source(const std::string& op, const std::string& members, const std::string& body) {
    const OperatorInfo& info = Registry::instance().at(op);
    return fmt::format(
        "#include <fastkernels/candidate.h>\n#include <string.h>\n"
        "class {0} : public fk::{0} {{\n public:\n  using fk::{0}::{0};\n  {1}\n  {2} override {{ {3} }}\n}};\n"
        "FK_CANDIDATE({0})\n",
        info.class_name, members, forward_signature(info), body);
  }
  std::string error_of(const ForeignKernel& kernel, const Fields& init, std::vector<OptView> args) {
    Arena arena;
    Context ctx{.pool = pool_, .arena = arena};
    try {
      kernel.create(init)->forward(ctx, args);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  WorkFolder folder_;
  ThreadPool pool_;
};

std::vector<OptView> two_rows(Tensor& x, Tensor& out) { return {x.view(), std::nullopt, out.view(), std::nullopt}; }

TEST_F(Bridge, ConstructorArgumentsArrive) {
  const char* checks =
      "if (init_.in_features != 6 || init_.out_features != 4 || !init_.bias || init_.float_output) throw "
      "fk::Error(\"numbers\");"
      "if (init_.output_sizes.size != 2 || init_.output_sizes[1] != 3) throw fk::Error(\"integers\");"
      "if (init_.dtype != fk::DType::kF32) throw fk::Error(\"dtype\");";
  auto linear = kernel("linear", source("linear", "", checks));
  Fields init = {{"in_features", int64_t{6}},
                 {"out_features", int64_t{4}},
                 {"bias", true},
                 {"float_output", false},
                 {"output_sizes", std::vector<int64_t>{1, 3}},
                 {"dtype", std::string("f32")}};
  Tensor x({2, 6}, DType::kF32), out({2, 4}, DType::kF32);
  EXPECT_EQ(error_of(*linear, init, {x.view(), out.view()}), "");

  const char* nested =
      "if (strcmp(init_.rope_scaling.type, \"llama3\") != 0 || init_.rope_scaling.factor != 8) throw "
      "fk::Error(\"nested\");"
      "if (init_.base != 500000 || !init_.is_neox_style) throw fk::Error(\"own\");";
  auto rotary = kernel("rotary_emb", source("rotary_emb", "", nested));
  Fields fields;
  for (const auto& with : Registry::instance().at("rotary_emb").cases())
    if (with.label == "llama3 scaling") fields = with.init;
  ASSERT_FALSE(fields.empty());
  for (Field& f : fields)
    if (f.name == "base") f.value = 500000.0;
  Tensor positions({1}, DType::kI64), query({1, 128}, DType::kF32);
  EXPECT_EQ(error_of(*rotary, fields, {positions.view(), query.view(), std::nullopt}), "");
}

TEST_F(Bridge, SlowErrorsKeepTheirWords) {
  Tensor x({2, 8}, DType::kF32), out({2, 8}, DType::kF32);
  Fields init = {{"hidden_size", int64_t{8}}, {"eps", 1e-6}, {"dtype", std::string("f32")}};
  auto said = [&](const std::string& body) {
    return error_of(*kernel("rms_norm", source("rms_norm", "", body)), init, two_rows(x, out));
  };
  EXPECT_EQ(said("throw fk::Error(\"row %d is odd\", 3);"), "The candidate for rms_norm failed: row 3 is odd");
  EXPECT_EQ(said("throw 5;"), "The candidate for rms_norm failed: it threw an exception");
  EXPECT_EQ(said("ctx.parallel_for(100, 1, [&](int64_t, int64_t) { throw fk::Error(\"in a loop\"); });"),
            "The candidate for rms_norm failed: in a loop");
  EXPECT_EQ(said("x.ptr<fk::bf16>();"),
            "The candidate for rms_norm failed: a view of f32 was read as another type; to see its bits, cast data()");
  EXPECT_EQ(said("fk::with_float(fk::DType::kI32, [](auto) {});"),
            "The candidate for rms_norm failed: it computes in bf16, f16 and f32 only, not in i32");
  EXPECT_EQ(said("weight(\"weight\");"), "The candidate for rms_norm failed: there is no weight 'weight'");
  EXPECT_EQ(said("ctx.parallel_for(9, 1, [&](int64_t, int64_t) { ctx.scratch<float>(8); });"),
            "The candidate for rms_norm failed: there is no scratch memory: inside parallel_for, or out of memory");
}

TEST_F(Bridge, LoopsNestAndScratchEndsWithTheCall) {
  const char* body =
      "long sums[64] = {};"
      "ctx.parallel_for(64, 1, [&](int64_t b, int64_t e) { for (int64_t i = b; i < e; ++i)"
      "  ctx.parallel_for(10, 3, [&](int64_t c, int64_t d) { for (int64_t j = c; j < d; ++j) sums[i] += j; }); });"
      "for (long s : sums) if (s != 45) throw fk::Error(\"a sum is %ld\", s);"
      "auto* memory = ctx.scratch<char>(100000); if (size_t(memory) % 64 != 0) throw fk::Error(\"not aligned\");"
      "memset(memory, 1, 100000);";
  auto norm = kernel("rms_norm", source("rms_norm", "", body));
  Fields init = {{"hidden_size", int64_t{8}}, {"eps", 1e-6}, {"dtype", std::string("f32")}};
  Tensor x({2, 8}, DType::kF32), out({2, 8}, DType::kF32);
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  std::unique_ptr<ForeignOperator> op = norm->create(init);
  std::vector<OptView> args = two_rows(x, out);
  for (int i = 0; i < 50; ++i) op->forward(ctx, args);
  EXPECT_LE(arena.capacity_bytes(), size_t{1} << 20);
}

TEST_F(Bridge, WeightsAreBoundAgain) {
  auto norm =
      kernel("rms_norm", source("rms_norm",
                                "float first = 0; int times = 0;"
                                "void prepare() override { first = weight(\"weight\").ptr<float>()[0]; ++times; }",
                                "out.ptr<float>()[0] = first; out.ptr<float>()[1] = float(times);"));
  Fields init = {{"hidden_size", int64_t{8}}, {"eps", 1e-6}, {"dtype", std::string("f32")}};
  std::unique_ptr<ForeignOperator> op = norm->create(init);
  Tensor x({2, 8}, DType::kF32), out({2, 8}, DType::kF32), weight({8}, DType::kF32);
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  for (int round = 1; round <= 3; ++round) {
    weight.ptr<float>()[0] = static_cast<float>(10 * round);
    // The names may go after the call: the bridge keeps its own.
    op->bind(std::vector<std::string>{"weight"}, std::vector<View>{weight});
    op->forward(ctx, two_rows(x, out));
    EXPECT_EQ(out.ptr<float>()[0], static_cast<float>(10 * round));
    EXPECT_EQ(out.ptr<float>()[1], static_cast<float>(round));
  }
}

TEST_F(Bridge, LoadRefusesWhatIsNoCandidateOfTheOperator) {
  CandidateFile file = folder_.candidate("rms_norm", rms_norm_with(""));
  CompileResult result = compile_candidate(file, folder_.options());
  ASSERT_FALSE(result.failure);
  EXPECT_THROW(load_candidate(result.so_path, Registry::instance().at("softmax")), Error);
  EXPECT_THROW(load_candidate(folder_.write("no.so", "text"), *file.op), Error);
  EXPECT_THROW(load_candidate(folder_.path() + "/nothing.so", *file.op), Error);
}

class SwappedModel : public Bridge {
 protected:
  Model tiny() {
    return load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy, .dtype = DType::kF32}, pool_);
  }
  std::vector<int64_t> tokens_of(const Model& model) {
    ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 64});
    Sampler sampler(1, {});
    GenerateRequest request{.prompt = {3, 10, 17, 24, 31}, .max_tokens = 12, .sampling = {}, .stop_tokens = {}};
    return generate(executor, sampler, request, [](int64_t) { return true; });
  }
  void swap_in_stub(const std::string& op) {
    const OperatorInfo& info = Registry::instance().at(op);
    swap_in({folder_.candidate(op, stub_text(info).value())}, folder_.options());
  }
  static int64_t calls(const Model& model, std::string_view op, std::string_view implementation) {
    int64_t n = 0;
    for (const DispatchCount& d : collect_dispatches(*model.root))
      if (d.op == op && (implementation.empty() || d.implementation == implementation)) n += d.calls;
    return n;
  }
};

TEST_F(SwappedModel, SlowTokensStayAndCountersTell) {
  std::vector<int64_t> expected = tokens_of(tiny());
  swap_in_stub("rms_norm");
  Model l1 = tiny();
  EXPECT_EQ(tokens_of(l1), expected);
  EXPECT_EQ(calls(l1, "rms_norm", "candidate"), 12 * (2 * 2 + 1));
  EXPECT_EQ(calls(l1, "rms_norm", ""), calls(l1, "rms_norm", "candidate"));

  // A block gets the weights of its parts, by names relative to itself, and hides them.
  swap_in_stub("silu_and_mul");
  swap_in_stub("llama_mlp");
  Model l2 = tiny();
  EXPECT_EQ(tokens_of(l2), expected);
  EXPECT_EQ(calls(l2, "llama_mlp", "candidate"), 12 * 2);
  EXPECT_EQ(calls(l2, "silu_and_mul", ""), 0);
  std::string line = describe_uses(candidate_uses(*l2.root));
  EXPECT_EQ(line, "candidates: rms_norm in 5 places, llama_mlp in 2 places; llama_mlp hides silu_and_mul in 2 places");
}

TEST_F(SwappedModel, ARefusedCallGoesToTheBaseline) {
  std::string text = source(
      "softmax",
      "const char* refuse(fk::Args args) const override { return args[0].size(0) > 2 ? \"too many rows\" : nullptr; }",
      "out.ptr<float>()[0] = 42;");
  const OperatorInfo& softmax = Registry::instance().at("softmax");
  swap_in({folder_.candidate("softmax", text)}, folder_.options());
  std::unique_ptr<Node> node = softmax.build({}, {});
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  for (int64_t rows : {2, 3}) {
    Tensor x({rows, 4}, DType::kF32), out({rows, 4}, DType::kF32);
    std::vector<OptView> args = {x.view(), out.view()};
    node->call(ctx, args);
    EXPECT_EQ(out.ptr<float>()[0], rows == 2 ? 42.0f : 0.25f);
  }
}

// Which implementation takes a call is asked once; then it is made with the data of the moment, and counted.
TEST_F(SwappedModel, AReadyCallIsMadeAgainAndAgain) {
  std::string text = source("softmax",
                            "mutable int asked_ = 0;\n"
                            "const char* refuse(fk::Args args) const override {\n"
                            "  if (++asked_ > 2) throw fk::Error(\"asked again\");\n"
                            "  return args[0].size(0) > 2 ? \"too many rows\" : nullptr;\n}",
                            "out.ptr<float>()[0] = 40 + x.ptr<float>()[0];");
  const OperatorInfo& softmax = Registry::instance().at("softmax");
  swap_in({folder_.candidate("softmax", text)}, folder_.options());
  std::unique_ptr<Node> node = softmax.build({}, {});
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  for (int64_t rows : {2, 3}) {
    Tensor x({rows, 4}, DType::kF32), out({rows, 4}, DType::kF32);
    std::vector<OptView> args = {x.view(), out.view()};
    std::string refusal;
    std::unique_ptr<ReadyCall> call = node->ready(ctx, args, refusal);
    EXPECT_EQ(refusal, rows == 2 ? "" : "candidate: too many rows");
    for (int i = 0; i < 5; ++i) {
      std::fill_n(x.ptr<float>(), rows * 4, static_cast<float>(i));
      call->make();
      EXPECT_EQ(out.ptr<float>()[0], rows == 2 ? 40.0f + static_cast<float>(i) : 0.25f);
    }
  }
  std::vector<DispatchCount> counts = collect_dispatches(*node);
  ASSERT_EQ(counts.size(), 2u);
  for (const DispatchCount& d : counts) EXPECT_EQ(d.calls, 5) << d.implementation;
}

// So a runner builds its tree: what the candidate refuses nobody else computes, whatever the candidate does to our
// memory.
TEST_F(SwappedModel, WhereNothingElseIsAllowedARefusedCallIsNotMade) {
  std::string text =
      source("softmax", "const char* refuse(fk::Args) const override { return \"not today\"; }", "out.ptr<float>();");
  swap_in({folder_.candidate("softmax", text)}, folder_.options());
  std::unique_ptr<Node> node = Registry::instance().at("softmax").build(
      {}, {.only_operator = "softmax", .only_implementation = std::string(kCandidateName)});
  EXPECT_EQ(node->implementations().size(), 1u);
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  Tensor x({2, 4}, DType::kF32), out({2, 4}, DType::kF32);
  std::vector<OptView> args = {x.view(), out.view()};
  std::string refusal;
  EXPECT_EQ(node->ready(ctx, args, refusal), nullptr);
  EXPECT_EQ(refusal, "not today");
  EXPECT_EQ(node->refusal(args), "not today");
}

TEST(Swap, SaysWhatDoesNotBuild) {
  WorkFolder folder;
  CandidateFile file = folder.candidate("rms_norm", rms_norm_with("int x = ;"));
  try {
    swap_in({file}, folder.options());
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rms_norm.cpp:5:"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fk
