package journey

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/journey/liquid"
)

// CheckTemplate reports why a param of a webhook is no Liquid template that Render
// accepts: its length, its syntax, what it uses that does not exist. The error
// repeats parts of the template. Which touchpoints a journey has is not known here.
func CheckTemplate(s string) error {
	_, err := compileTemplate(s, anyTouchpoint)
	return err
}

// anyTouchpoint is for templates of webhooks, which may name touchpoints that one journey
// does not have.
func anyTouchpoint(string) bool { return true }

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
	t, err := liquid.Compile(source, templateType)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range t.References {
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

// leadTypes are the types of the fields of leads that are no texts.
var leadTypes = map[string]liquid.Type{
	"leadsId": liquid.Number, "leadsGroup": liquid.Number, "region": liquid.Number, "gender": liquid.Number, "test": liquid.Boolean,
	"mobilePhone": liquid.List, "createdAt": liquid.Moment, "updatedAt": liquid.Moment, "customFields": liquid.Unknown, "consents": liquid.Unknown,
}

// touchpointTypes are the types of touchpointMembers.
var touchpointTypes = map[string]liquid.Type{"succeed": liquid.Boolean, "httpStatus": liquid.Number, "message": liquid.Text, "attempts": liquid.Number}

// templateType is what a template's variable holds whenever it is set.
func templateType(path []string) liquid.Type {
	known := func(name string) bool { _, ok := members()[path[0]][name]; return ok }
	switch {
	case len(path) == 1 && path[0] == varNow:
		return liquid.Moment
	case len(path) == 1 && path[0] == varToday:
		return liquid.Text
	case len(path) == 2 && path[0] == varLead:
		if t, ok := leadTypes[path[1]]; ok || !known(path[1]) {
			return t
		}
		return liquid.Text
	case len(path) == 2 && path[0] == varJourney && path[1] == "version":
		return liquid.Number
	case len(path) == 2 && known(path[1]) && (path[0] == varJourney || path[1] == "id" || path[1] == "entryKey"):
		return liquid.Text
	case len(path) == 3 && path[0] == varTouchpoints:
		return touchpointTypes[path[2]]
	}
	return liquid.Unknown
}

// unknownVariable returns what is wrong with the names that a template reads: they
// would quietly render nothing. It is empty if nothing is.
func unknownVariable(path []string, touchpoint func(id string) bool) string {
	root := path[0]
	known, ok := members()[root]
	switch {
	case root == varEvent:
		return eventKnown + "; that which an enrollment began by is enrollment.event"
	case !ok && root != varTouchpoints && root != varNow && root != varToday:
		return fmt.Sprintf("there is no variable %q; the variables are %s", waypost.Clip(root, 64), variableNames())
	case len(path) < 2:
		return ""
	case root == varNow || root == varToday:
		return fmt.Sprintf("%s has no member %q", root, waypost.Clip(path[1], 64))
	}
	if fault := unknownMember(root, path[1], touchpoint); fault != "" || len(path) < 3 {
		return fault
	}
	if root == varTouchpoints || root == varEnrollment && path[1] == varEvent {
		return unknownOf(root, path[1], path[2])
	}
	if _, open := known[path[1]].(map[string]any); !open && !slices.Contains(valueMembers, path[2]) {
		return fmt.Sprintf("%s.%s has no member %q", root, path[1], waypost.Clip(path[2], 64))
	}
	return ""
}

// valueMembers are what every list and text has.
var valueMembers = []string{"size", "first", "last"}

func variableNames() string {
	names := slices.AppendSeq([]string{varTouchpoints, varNow, varToday}, maps.Keys(members()))
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// maxCached is more than the templates of any sane journey and its webhooks.
const maxCached = 1024

func newTemplates() *lru.Cache[string, *liquid.Template] {
	cache, _ := lru.New[string, *liquid.Template](maxCached) // fails for a size below 1 only
	return cache
}

// template compiles a template of the definition or of a webhook, once; nil for a text
// without any tag.
func (d *Definition) template(source string) (*liquid.Template, error) {
	if t, ok := d.templates.Get(source); ok {
		return t, nil
	}
	t, err := compileTemplate(source, anyTouchpoint)
	if err != nil || t == nil {
		return nil, err
	}
	d.templates.Add(source, t)
	return t, nil
}
