package segment

import (
	"testing"

	"waypost"
)

// What is evaluated costs about as much as reading the lead.
func BenchmarkHas(b *testing.B) {
	s, err := Compile(one, map[string]string{one: `lead.name.size() > 3 && lead.customFields.plan + "x" == "goldx"`})
	if err != nil {
		b.Fatal(err)
	}
	lead := waypost.Lead{LeadsID: 1, CreatedAt: at, UpdatedAt: at, LeadFields: waypost.LeadFields{
		Name: "Ada Lovelace", Region: new(int64(310000)), CustomFields: map[string]any{"plan": "gold", "branch": "b17"},
	}}
	record := &waypost.LeadRecord{}
	for b.Loop() {
		if !s.Has(b.Context(), &lead, record, at, false) {
			b.Fatal("the lead is not in the segment")
		}
	}
}
