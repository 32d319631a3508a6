package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"waypost"
)

type noApplications struct{}

func (noApplications) Credential(context.Context, string) (waypost.Credential, error) {
	return waypost.Credential{}, waypost.Errorf(waypost.CodeNotFound, "accessKey", "unknown")
}

func (noApplications) Application(context.Context, string) (waypost.Application, error) {
	return waypost.Application{}, waypost.Errorf(waypost.CodeNotFound, "application", "unknown")
}

// Made-up keys are remembered, too, for a moment, and do not fill the memory.
func TestCredentialsAreBounded(t *testing.T) {
	t.Parallel()
	s := newCredentials(noApplications{}, func() time.Time { return time.Unix(0, 0) })
	for i := range 2*maxRecent + 5 {
		c, err := s.find(t.Context(), fmt.Sprint("AK", i))
		if err != nil || !c.Application.Disabled || c.SecretKey == "" {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if n := s.known.Len(); n != maxRecent {
		t.Errorf("%d keys are kept, want %d", n, maxRecent)
	}
}

type oneVersion struct {
	Journeys
	loads int
}

func (v *oneVersion) JourneyVersion(_ context.Context, sc waypost.Scope, id string, version int) (waypost.JourneyVersion, error) {
	v.loads++
	return waypost.JourneyVersion{Scope: sc, JourneyID: id, Version: version, Definition: []byte(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)}, nil
}

func TestDefinitionsAreKeptAndBounded(t *testing.T) {
	t.Parallel()
	source := &oneVersion{}
	a := &server{Options: Options{Journeys: source}, definitions: newDefinitions()}
	for range 3 {
		if _, err := a.definition(t.Context(), waypost.Scope{}, "jrn_1", 1); err != nil {
			t.Fatal(err)
		}
	}
	if source.loads != 1 {
		t.Errorf("one version was loaded %d times", source.loads)
	}
	for version := range maxDefinitions + 5 {
		if _, err := a.definition(t.Context(), waypost.Scope{}, "jrn_2", version); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.definitions.Len(); n > maxDefinitions {
		t.Errorf("%d definitions are kept", n)
	}
}
