terraform {
  # `optional` with defaults in the types of variables.
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # The tests check the module against the schema of 6.25.
      version = ">= 6.0, < 7.0"
    }
  }
}
