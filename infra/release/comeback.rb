class Comeback < Formula
  desc "@SUMMARY@"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

@ARCHIVES@
  def install
    bin.install "comeback"
    generate_completions_from_executable(bin/"comeback", "completions")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/comeback --version")
  end
end
