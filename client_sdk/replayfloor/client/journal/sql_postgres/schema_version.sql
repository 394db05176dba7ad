-- Returns the version of the journal's schema.
select version from replayfloor_client.journal_version;
