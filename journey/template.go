package journey

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost/journey/liquid"
)

// CheckTemplate reports why a param of a webhook is no Liquid template that Render
// accepts: its length, its syntax, what it uses that does not exist. The error
// repeats parts of the template. Which touchpoints a journey has is not known here.
func CheckTemplate(s string) error {
	_, err := compileTemplate(s, func(string) bool { return true })
	return err
}

// checkTemplate is CheckTemplate for a param of the journey itself.
func (d *Definition) checkTemplate(s string) error {
	_, err := compileTemplate(s, d.hasTouchpoint)
	return err
}

func (d *Definition) hasTouchpoint(id string) bool {
	n, ok := d.Node(id)
	return ok && n.Type == Touchpoint
}

// compileTemplate compiles a template; nil for a text without any tag.
func compileTemplate(source string, touchpoint func(id string) bool) (*liquid.Template, error) {
	if len(source) > MaxTemplate {
		return nil, fmt.Errorf("has at most %d KiB", MaxTemplate>>10)
	}
	if !strings.Contains(source, "{{") && !strings.Contains(source, "{%") {
		return nil, nil
	}
	t, err := liquid.Compile(source)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range t.References() {
		if fault := unknownVariable(r.Path, touchpoint); fault != "" {
			found = append(found, fmt.Sprintf("line %d, column %d: %s", r.Line, r.Column, fault))
		}
		if len(found) == 3 {
			break
		}
	}
	if len(found) > 0 {
		return nil, errors.New(strings.Join(found, "; "))
	}
	return t, nil
}

// unknownVariable returns what is wrong with the names that a template reads: they
// would quietly render nothing. It is empty if nothing is.
func unknownVariable(path []string, touchpoint func(id string) bool) string {
	root := path[0]
	known, ok := members()[root]
	switch {
	case root == varEvent:
		return "event is known in the condition of a waitForEvent only"
	case root == varTouchpoints:
		if len(path) > 1 && !touchpoint(path[1]) {
			return fmt.Sprintf("the journey has no touchpoint %q", clip(path[1], 64))
		}
		if len(path) > 2 && !slices.Contains(touchpointMembers, path[2]) {
			return fmt.Sprintf("a touchpoint has no member %q, but %s", clip(path[2], 64), strings.Join(touchpointMembers, ", "))
		}
		return ""
	case root == varNow || root == varToday:
		if len(path) > 1 {
			return fmt.Sprintf("%s has no member %q", root, clip(path[1], 64))
		}
		return ""
	case !ok:
		return fmt.Sprintf("there is no variable %q; the variables are %s", clip(root, 64), strings.Join(variableNames(), ", "))
	case len(path) < 2:
		return ""
	}
	if _, ok := known[path[1]]; !ok {
		return fmt.Sprintf("%s has no member %q", root, clip(path[1], 64))
	}
	if _, open := known[path[1]].(object); !open && len(path) > 2 && !slices.Contains(valueMembers, path[2]) {
		return fmt.Sprintf("%s.%s has no member %q", root, path[1], clip(path[2], 64))
	}
	return ""
}

// valueMembers are what every list and text has.
var valueMembers = []string{"size", "first", "last"}

func variableNames() []string {
	names := []string{varTouchpoints, varNow, varToday}
	for name := range members() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// templateCache keeps the templates that a definition's deliveries use, the
// webhooks' included.
type templateCache struct {
	known *lru.Cache[string, *liquid.Template]
}

// maxCached is more than the templates of any sane journey and its webhooks.
const maxCached = 1024

func newTemplateCache() templateCache {
	known, _ := lru.New[string, *liquid.Template](maxCached) // fails for a size below 1 only
	return templateCache{known}
}

// template compiles a template, or returns the compiled one; nil for a text without
// any tag.
func (c *templateCache) template(source string) (*liquid.Template, error) {
	if t, ok := c.known.Get(source); ok {
		return t, nil
	}
	// A webhook's template may name touchpoints that this journey does not have.
	t, err := compileTemplate(source, func(string) bool { return true })
	if err != nil || t == nil {
		return nil, err
	}
	c.known.Add(source, t)
	return t, nil
}
