// Package liquid compiles and renders Liquid templates as Shopify's own
// implementation does in its strict mode, within bounds on work and output.
//
// Whatever can be known to fail is refused by Compile, with line and column: a
// syntax error, an unknown tag or filter, a number of arguments that a filter does
// not take, an operation on literals that cannot work, whatever fails before the
// first value is read that only Render knows. What depends on values fails Render,
// with an error that holds no value.
//
// # Files by topic
//
//   - Compile and Render: template.go
//   - reading a template: scan.go, parse.go, expression.go, types.go
//   - rendering it: run.go, nodes.go, loop.go
//   - filters: filters.go, filters_text.go, filters_list.go, date.go, money.go
//   - values and bounds: value.go, number.go, budget.go
package liquid
