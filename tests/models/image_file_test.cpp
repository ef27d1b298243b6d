// Images from PPM, PGM and NumPy files, what a model wants done to them, and files that are damaged.
#include "models/image_file.h"

#include <gtest/gtest.h>

#include "models/image_preprocessor.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

class ImageFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const { return folder_.write(name, bytes); }
  static std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string text = "\x93NUMPY";
    text += '\1';
    text += '\0';
    text += static_cast<char>(header.size() & 0xff);
    text += static_cast<char>(header.size() >> 8);
    return text + header + data;
  }

  TempDirectory folder_;
};

TEST_F(ImageFiles, PixelsOfAPpmAreRowsOfChannels) {
  ImageFile image = read_image(write("a.ppm", "P6 # a comment\n2 1\n255\n\x01\x02\x03\xff\x05\x06"));
  EXPECT_FALSE(image.normalised);
  EXPECT_EQ(image.pixels.view().shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(image.pixels.ptr<uint8_t>()[3], 255);
  EXPECT_EQ(read_image(write("a.pgm", "P5 3 1 255 abc")).pixels.view().shape(), (Shape{1, 3, 1}));
}

TEST_F(ImageFiles, NumpyArraysArePixelsOrNormalised) {
  EXPECT_EQ(read_image(write("a.npy", npy("|u1", "1, 2, 3", "abcdef"))).pixels.view().shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(read_image(write("b.npy", npy("|u1", "2, 3", "abcdef"))).pixels.view().shape(), (Shape{2, 3, 1}));
  ImageFile floats =
      read_image(write("c.npy", npy("<f4", "3, 1, 1", std::string("\0\0\x80\x3f\0\0\0\0\0\0\0\x40", 12))));
  EXPECT_TRUE(floats.normalised);
  EXPECT_EQ(floats.pixels.ptr<float>()[0], 1);
  EXPECT_EQ(floats.pixels.ptr<float>()[2], 2);
}

TEST_F(ImageFiles, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "neither"},
      {"\x89PNG....", "neither"},
      {"P6 2 2 255\nabc", "ends early"},
      {"P6 2 2 65535\n", "8 bits"},
      {"P6 0 2 255\n", "sizes"},
      {"P6 99999999999999999999 2 255\n", "sizes"},
      {"P6", "neither"},
      {"P6 2", "header"},
      {npy("<f8", "1, 1, 1", "12345678"), "dtype"},
      {npy("|u1", "1, 2", "a"), "before its last pixel"},
      {npy("|u1", "1, 2, 3, 4", "a"), "shape"},
      {npy("|u1", "4000000000, 4000000000, 4000000000", "a"), "shape"},
      {std::string("\x93NUMPY\1\0\xff\xff", 10), "header"},
  };
  for (const auto& [bytes, word] : wrong) {
    std::string path = write("wrong", bytes);
    std::string error = error_of([&] { read_image(path); });
    EXPECT_NE(error.find(word), std::string::npos) << bytes << ": " << error;
  }
  EXPECT_NE(error_of([&] { read_image("/no/such/file"); }), "(no error)");
}

TEST_F(ImageFiles, PreprocessingNormalisesAndRefusesOtherSizes) {
  ModelFacts facts;
  facts.num_channels = 3;
  facts.image_size = 1;
  facts.patch_size = 1;
  write("preprocessor_config.json",
        R"({"image_mean": [0.5, 0.25, 0], "image_std": [0.5, 0.5, 1], "rescale_factor": 0.00392156862745098})");
  ImagePreprocessor preprocessor = read_image_preprocessor(folder_.path());
  std::string path = write("a.ppm", "P6 1 1 255\n\xff\x33\x66");
  Tensor pixels = preprocess(preprocessor, read_image(path), facts, path);
  EXPECT_FLOAT_EQ(pixels.ptr<float>()[0], 1);
  EXPECT_FLOAT_EQ(pixels.ptr<float>()[1], -0.1F);
  EXPECT_FLOAT_EQ(pixels.ptr<float>()[2], 0.4F);
  facts.image_size = 2;
  EXPECT_NE(error_of([&] { preprocess(preprocessor, read_image(path), facts, path); }).find("resize"),
            std::string::npos);
  write("preprocessor_config.json", R"({"image_std": [0, 1, 1]})");
  EXPECT_NE(error_of([&] { read_image_preprocessor(folder_.path()); }).find("positive"), std::string::npos);
}

}  // namespace
}  // namespace fk
