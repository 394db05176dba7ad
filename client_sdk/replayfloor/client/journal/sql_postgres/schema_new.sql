-- Makes the empty schema; fails for a role that may not create one in the database.
create schema replayfloor_client;
