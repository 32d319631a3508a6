package waypost

import (
	"maps"
	"reflect"
	"slices"
)

// LeadPatch is a merge patch (RFC 7396) of a lead's fields: members that are not
// written stay, null clears, and custom fields and consents are merged one by one
// (docs/contract.md, "Lead calls").
type LeadPatch struct {
	// Fields holds what is written; a custom field or a consent that is null is to be cleared.
	Fields  LeadFields
	written []string // names of members, null ones included
}

// ReadLeadPatch reads a patch: one JSON object of lead fields, from which it takes what
// Validate takes out of them. What is wrong with its form is reported by the names of
// its members; Validate reports the rest.
func ReadLeadPatch(data []byte) (LeadPatch, Problems) {
	var fields LeadFields
	written, problems := decodeJSON(data, &fields)
	fields.clean()
	return LeadPatch{fields, written}, problems
}

// Writes tells whether the patch says something of the member.
func (p LeadPatch) Writes(member string) bool { return slices.Contains(p.written, member) }

// Apply returns the fields as they are after the patch. Neither the patch nor f
// shares a map or a slice with the result that is changed.
func (p LeadPatch) Apply(f LeadFields) LeadFields {
	from, to := reflect.ValueOf(p.Fields), reflect.ValueOf(&f).Elem()
	for name, index := range fieldsOf(from.Type()) {
		if p.Writes(name) && name != "customFields" && name != "consents" {
			to.FieldByIndex(index).Set(from.FieldByIndex(index))
		}
	}
	if p.Writes("customFields") {
		f.CustomFields = mergeMembers(f.CustomFields, p.Fields.CustomFields)
	}
	if p.Writes("consents") {
		f.Consents = mergeMembers(f.Consents, p.Fields.Consents)
	}
	return f
}

// mergeMembers is an object after a merge patch of it, which null clears.
func mergeMembers(object, patch map[string]any) map[string]any {
	if patch == nil {
		return nil
	}
	merged := maps.Clone(object)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, value := range patch {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = value
		}
	}
	return merged
}
