package cli

// Target is target, for the tests.
var Target = target
