//go:build race

package journey_test

// costlyTemplates are left out of race builds, see costly_test.go.
var costlyTemplates map[string]string
